// Package live follows the calls that are open: which there are, how their answers grow, and how
// they end. The dashboard shows it, and perigee trace tail prints it.
//
// Following a call costs one uncontended lock and a copy of the text for each event.
package live

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"perigee"
)

// Bounds of the data that a Hub holds for each open call.
const (
	TailSize = 4 << 10 // bytes of an answer, and of its thinking, that are kept
	maxTools = 20
)

// A Hub tracks the open calls and sends updates about them to its subscribers. All methods are safe
// for concurrent use.
type Hub struct {
	now     func() time.Time
	stopped context.Context
	stop    context.CancelFunc

	mu          sync.Mutex // taken before the lock of a follower
	open        map[*follower]struct{}
	subscribers map[*subscriber]struct{}
}

// New returns a Hub that follows nothing yet. now returns the current time.
func New(now func() time.Time) *Hub {
	h := &Hub{now: now, open: map[*follower]struct{}{}, subscribers: map[*subscriber]struct{}{}}
	h.stopped, h.stop = context.WithCancel(context.Background())
	return h
}

// Stop ends all subscriptions, those that begin later as well: a server that drains would wait for
// them. Calls are still followed.
func (h *Hub) Stop() { h.stop() }

// Stopped reports whether Stop was called.
func (h *Hub) Stopped() bool { return h.stopped.Err() != nil }

// Watch follows a call until its record is complete. It is a value of record.Options.Watch.
func (h *Hub) Watch(call *perigee.Call, _ *perigee.Origin) perigee.Watcher {
	f := &follower{hub: h, call: *call}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open[f] = struct{}{}
	for s := range h.subscribers {
		f.subscribers = append(f.subscribers, s)
	}
	f.publishCall(Began)
	return f
}

// An OpenCall is the state of a call that has not ended.
type OpenCall struct {
	Call      perigee.Call // Upstream, Model and Account as soon as the answer begins
	Text      string       // the end of the answer so far, at most TailSize bytes
	Thinking  string       // the end of its thinking, at most TailSize bytes
	Tools     []string     // names of the first functions that it calls
	FirstByte time.Duration
}

// Open lists the open calls, the oldest first.
func (h *Hub) Open() []OpenCall {
	h.mu.Lock()
	list := make([]OpenCall, 0, len(h.open))
	for f := range h.open {
		if c, ok := f.snapshot(); ok {
			list = append(list, c)
		}
	}
	h.mu.Unlock()
	slices.SortFunc(list, func(a, b OpenCall) int {
		return cmp.Or(a.Call.Time.Compare(b.Call.Time), strings.Compare(a.Call.ID, b.Call.ID))
	})
	return list
}

// Count is how many calls are open.
func (h *Hub) Count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.open)
}

// Subscribe returns the updates from now on, until ctx ends or Stop is called. They begin with the
// open calls: Began, the answer so far, and then further updates. The subscription ends with the
// loop over the updates; without a loop, it lasts until ctx ends.
//
// A subscriber that reads too slowly loses pieces of text, and never Began, Started, Tool or Ended.
// One that is thousands of updates behind is given up: the loop ends while ctx has not.
func (h *Hub) Subscribe(ctx context.Context) iter.Seq[Update] {
	s := newSubscriber()
	h.add(s)
	ctx, cancel := context.WithCancel(ctx)
	release := context.AfterFunc(h.stopped, cancel)
	leave := sync.OnceFunc(func() {
		release()
		cancel()
		h.remove(s)
	})
	context.AfterFunc(ctx, leave)
	return func(yield func(Update) bool) {
		defer leave() // the subscription is over when the loop is
		for {
			updates, ok := s.next(ctx)
			for _, u := range updates {
				if !yield(u) {
					return
				}
			}
			if !ok {
				return
			}
		}
	}
}

func (h *Hub) add(s *subscriber) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.subscribers[s] = struct{}{}
	for f := range h.open {
		f.subscribe(s)
	}
}

func (h *Hub) remove(s *subscriber) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.subscribers, s)
	for f := range h.open {
		f.unsubscribe(s)
	}
}

// A follower is one open call. It is its perigee.Watcher.
type follower struct {
	hub *Hub

	mu          sync.Mutex
	call        perigee.Call
	id          *perigee.Call // has only the ID; nil until an update needs it
	subscribers []*subscriber
	text        tail
	thinking    tail
	tools       []string
	firstByte   time.Duration
	ended       bool
}

// known returns a copy of the call, for an update.
func (f *follower) known() *perigee.Call { return new(f.call) }

// named returns a call that has only the ID, for updates with a piece of the answer.
func (f *follower) named() *perigee.Call {
	if f.id == nil {
		f.id = &perigee.Call{ID: f.call.ID}
	}
	return f.id
}

// Body does nothing: the text of an answer comes in events.
func (f *follower) Body(perigee.TapPoint, ...[]byte) {}

// Done does nothing: the record ends a call.
func (f *follower) Done() {}

// Event adds the content of an event to the answer. The content of a frame comes in the events that
// follow it.
func (f *follower) Event(e *perigee.Event) {
	if e.Candidate != 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return
	}
	switch e.Kind {
	case perigee.EventStart:
		f.begin(e)
		return
	case perigee.EventText:
		f.write(Text, e.Text)
	case perigee.EventThinking:
		f.write(Thinking, e.Text)
	case perigee.EventCall:
		if e.Call != nil {
			f.useTool(strings.Clone(e.Call.Name))
		}
	default:
		return
	}
	if f.firstByte == 0 {
		f.firstByte = max(f.hub.now().Sub(f.call.Time), 1)
	}
}

// begin takes the upstream, the account and the model from the first event. A call may begin more
// than once if attempts fail.
func (f *follower) begin(e *perigee.Event) {
	if e.Upstream == "" && e.Model == "" && e.Account == "" {
		return
	}
	for _, field := range []struct {
		to   *string
		from string
	}{{&f.call.Upstream, e.Upstream}, {&f.call.Model, e.Model}, {&f.call.Account, e.Account}} {
		if field.from != "" {
			*field.to = field.from
		}
	}
	f.publishCall(Started)
}

func (f *follower) write(kind Kind, text string) {
	if text == "" {
		return
	}
	to := &f.text
	if kind == Thinking {
		to = &f.thinking
	}
	to.add(text)
	if len(f.subscribers) > 0 {
		f.publish(Update{Kind: kind, Call: f.named(), Text: strings.Clone(text)})
	}
}

func (f *follower) useTool(name string) {
	if len(f.tools) < maxTools {
		f.tools = append(f.tools, name)
	}
	if len(f.subscribers) > 0 {
		f.publish(Update{Kind: Tool, Call: f.named(), Text: name})
	}
}

// Ended ends the call.
func (f *follower) Ended(c *perigee.Call) {
	f.mu.Lock()
	if f.ended {
		f.mu.Unlock()
		return
	}
	f.ended = true
	f.call = *c
	f.publishCall(Ended)
	f.subscribers = nil
	f.mu.Unlock()

	f.hub.mu.Lock()
	defer f.hub.mu.Unlock()
	delete(f.hub.open, f)
}

// publishCall publishes a copy of the call, which costs nothing without subscribers.
func (f *follower) publishCall(kind Kind) {
	if len(f.subscribers) > 0 {
		f.publish(Update{Kind: kind, Call: f.known()})
	}
}

// publish queues an update for each subscriber.
func (f *follower) publish(u Update) {
	for _, s := range f.subscribers {
		s.put(u)
	}
}

// subscribe adds a subscriber, which first gets the state of the call so far.
func (f *follower) subscribe(s *subscriber) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return
	}
	s.put(Update{Kind: Began, Call: f.known()})
	for _, part := range []struct {
		kind Kind
		tail *tail
	}{{Thinking, &f.thinking}, {Text, &f.text}} {
		if text := part.tail.String(); text != "" {
			s.put(Update{Kind: part.kind, Call: f.named(), Text: text})
		}
	}
	for _, name := range f.tools {
		s.put(Update{Kind: Tool, Call: f.named(), Text: name})
	}
	f.subscribers = append(f.subscribers, s)
}

func (f *follower) unsubscribe(s *subscriber) {
	f.mu.Lock()
	defer f.mu.Unlock()
	// A new slice, because publish may be reading the old one.
	f.subscribers = slices.DeleteFunc(slices.Clone(f.subscribers), func(other *subscriber) bool { return other == s })
}

// snapshot returns the current state of the call. ok is false if it has ended.
func (f *follower) snapshot() (OpenCall, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return OpenCall{}, false
	}
	return OpenCall{Call: f.call, Text: f.text.String(), Thinking: f.thinking.String(), Tools: slices.Clone(f.tools),
		FirstByte: f.firstByte}, true
}

// A tail is the end of a text.
type tail struct {
	buf   []byte // at most 2*TailSize
	total int64
}

func (t *tail) add(text string) {
	t.total += int64(len(text))
	if len(text) >= TailSize {
		t.buf, text = t.buf[:0], text[len(text)-TailSize:]
	}
	if len(t.buf)+len(text) > 2*TailSize {
		t.buf = t.buf[:copy(t.buf, t.buf[len(t.buf)-TailSize:])]
	}
	if t.buf == nil {
		t.buf = make([]byte, 0, max(len(text), 1<<10))
	}
	t.buf = append(t.buf, text...)
}

// String returns at most TailSize bytes, from the beginning of a character on.
func (t *tail) String() string {
	end := t.buf[max(0, len(t.buf)-TailSize):]
	for i := 0; i < utf8.UTFMax && len(end) > 0 && int64(len(end)) < t.total && !utf8.RuneStart(end[0]); i++ {
		end = end[1:]
	}
	return string(end)
}
