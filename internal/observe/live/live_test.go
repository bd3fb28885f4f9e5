package live

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"perigee"
	"perigee/internal/testing/perigeetest"
	"perigee/internal/testing/perigeetest/await"
)

func call(id string) *perigee.Call {
	return &perigee.Call{ID: id, Time: time.Now(), ModelAsked: "asked", Outcome: perigee.OutcomeOpen}
}

func text(s string) *perigee.Event     { return &perigee.Event{Kind: perigee.EventText, Text: s} }
func thinking(s string) *perigee.Event { return &perigee.Event{Kind: perigee.EventThinking, Text: s} }
func frame(s string) *perigee.Event {
	return &perigee.Event{Kind: perigee.EventFrame, Frame: []byte(s)}
}

// collect reads updates in the background as lines, until the context ends or the loop does.
func collect(ctx context.Context, h *Hub) (lines func() string, done <-chan struct{}) {
	var mu sync.Mutex
	var b strings.Builder
	end := make(chan struct{})
	go func() {
		defer close(end)
		for u := range h.Subscribe(ctx) {
			mu.Lock()
			fmt.Fprintf(&b, "%s %s %s%s%s\n", u.Kind, u.Call.ID, u.Call.Upstream, u.Call.Outcome, u.Text)
			mu.Unlock()
		}
	}()
	return func() string { mu.Lock(); defer mu.Unlock(); return b.String() }, end
}

func TestASubscriberSeesACallFromBeginToEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New(time.Now)
		ctx, cancel := context.WithCancel(t.Context())
		early := h.Watch(call("early"), nil)
		early.Event(thinking("hm"))
		early.Event(text("so "))
		early.Event(text("far"))
		lines, done := collect(ctx, h)
		synctest.Wait()
		early.Event(&perigee.Event{Kind: perigee.EventCall, Call: &perigee.FunctionCall{Name: "read"}})
		synctest.Wait()
		late := h.Watch(call("late"), nil)
		late.Event(&perigee.Event{Kind: perigee.EventStart, Upstream: "studio", Model: "m"})
		late.Event(text("a"))
		late.Event(&perigee.Event{Kind: perigee.EventText, Text: "another candidate", Candidate: 1})
		synctest.Wait()
		late.Event(text("b"))
		late.Ended(&perigee.Call{ID: "late", Outcome: perigee.OutcomeDone})
		late.Event(text("after the end"))
		late.Ended(&perigee.Call{ID: "late", Outcome: perigee.OutcomeDone})
		synctest.Wait()
		want := "began early open\nthinking early hm\ntext early so far\ntool early read\n" +
			"began late open\nstarted late studioopen\ntext late a\ntext late b\nended late done\n"
		if got := lines(); got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
		cancel()
		<-done
		if len(h.subscribers) != 0 || len(early.(*follower).subscribers) != 0 {
			t.Error("a subscriber is left")
		}
	})
}

func TestOpenListsCallsWithTheEndOfTheirAnswers(t *testing.T) {
	now := time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC)
	h := New(func() time.Time { return now.Add(time.Second) })
	second, first := call("second"), call("first")
	second.Time, first.Time = now, now.Add(-time.Minute)
	b := h.Watch(second, nil)
	h.Watch(first, nil)
	b.Event(&perigee.Event{Kind: perigee.EventStart, Upstream: "studio", Model: "gemini", Account: "a@example.com"})
	for range 3 * TailSize {
		b.Event(text("aé"))
	}
	b.Event(text("end"))
	list := h.Open()
	if len(list) != 2 || list[0].Call.ID != "first" || h.Count() != 2 {
		t.Fatalf("got %+v", list)
	}
	got := list[1]
	if got.Call.Upstream != "studio" || got.Call.Model != "gemini" || got.Call.Account != "a@example.com" || got.FirstByte != time.Second {
		t.Errorf("got %+v", got.Call)
	}
	if len(got.Text) > TailSize || len(got.Text) < TailSize-utf8.UTFMax || !utf8.ValidString(got.Text) ||
		!strings.HasSuffix(got.Text, "éend") {
		t.Errorf("%d bytes", len(got.Text))
	}
	b.Event(text(strings.Repeat("x", 10*TailSize)))
	if got := h.Open()[1].Text; got != strings.Repeat("x", TailSize) {
		t.Errorf("%d bytes", len(got))
	}
	if size := cap(b.(*follower).text.buf); size > 4*TailSize {
		t.Errorf("%d bytes are held", size)
	}
	b.Ended(second)
	if list := h.Open(); len(list) != 1 || h.Count() != 1 {
		t.Errorf("got %+v", list)
	}
}

// The content of a frame is in the events that follow it, and is shown once.
func TestFramesAddNothing(t *testing.T) {
	h := New(time.Now)
	w := h.Watch(call("c"), nil)
	for _, e := range []*perigee.Event{frame("one"), thinking("hm"), text("one"), frame("two"), text("two")} {
		w.Event(e)
	}
	if got := h.Open()[0]; got.Text != "onetwo" || got.Thinking != "hm" {
		t.Errorf("got %+v", got)
	}
}

// A subscriber that does not read loses text, and knows of every call all the same.
func TestASlowSubscriberLosesOnlyText(t *testing.T) {
	s := newSubscriber()
	h := New(time.Now)
	h.add(s)
	calls := 1000
	if testing.Short() {
		calls = 200
	}
	for i := range calls {
		w := h.Watch(call(fmt.Sprint(i)), nil)
		for range 100 {
			w.Event(text(strings.Repeat("x", 1000)))
			w.Event(thinking("hm"))
		}
		w.Ended(&perigee.Call{ID: fmt.Sprint(i)})
	}
	updates, ok := s.next(t.Context())
	count, size := map[Kind]int{}, 0
	for _, u := range updates {
		count[u.Kind]++
		size += len(u.Text)
	}
	if !ok || count[Began] != calls || count[Ended] != calls {
		t.Errorf("got %v", count)
	}
	if size == 0 || size > maxQueuedText || len(updates) > 2*calls+maxPieces {
		t.Errorf("%d bytes in %d updates are queued", size, len(updates))
	}
	w := h.Watch(call("next"), nil)
	w.Event(text("again"))
	if updates, _ := s.next(t.Context()); len(updates) != 2 || updates[1].Text != "again" {
		t.Errorf("got %+v", updates)
	}
}

// What waits for a subscriber that does not read takes little memory, since subscribers share what
// is known of a call.
func TestSlowSubscribersHoldLittle(t *testing.T) {
	perigeetest.Unraced(t)
	h := New(time.Now)
	const subscribers, calls, most = 100, 200, 256 << 10
	for range subscribers {
		h.add(newSubscriber())
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range calls {
		c := call(fmt.Sprint(i))
		c.Error, c.ModelAsked = strings.Repeat("e", 4<<10), strings.Repeat("m", 4<<10)
		w := h.Watch(c, nil)
		for range 100 {
			w.Event(text(strings.Repeat("x", 100)))
			w.Event(thinking("hm"))
		}
		w.Ended(c)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if held := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / subscribers; held > most {
		t.Errorf("each subscriber holds %d bytes", held)
	}
	runtime.KeepAlive(h)
}

func TestASubscriberThatDoesNotReadIsGivenUp(t *testing.T) {
	h := New(time.Now)
	ctx := t.Context()
	ended := false
	h.Watch(call("first"), nil)
	for range h.Subscribe(ctx) { // it begins with that call
		if ended {
			continue
		}
		ended = true
		for i := range maxQueued {
			w := h.Watch(call(fmt.Sprint(i)), nil)
			w.Ended(call(fmt.Sprint(i)))
		}
	}
	if !ended {
		t.Error("there was no update")
	}
}

func TestManyCallsAndSubscribers(t *testing.T) {
	h := New(time.Now)
	ctx, cancel := context.WithCancel(t.Context())
	const calls = 200
	var readers, callers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			open := map[string]bool{}
			for u := range h.Subscribe(ctx) {
				switch {
				case u.Kind == Began && open[u.Call.ID], u.Kind != Began && !open[u.Call.ID]:
					t.Errorf("%s of %s is out of order", u.Kind, u.Call.ID)
				case u.Kind == Ended:
					delete(open, u.Call.ID)
				default:
					open[u.Call.ID] = true
				}
				h.Open()
			}
		})
	}
	for i := range calls {
		callers.Go(func() {
			c := call(fmt.Sprint(i))
			w := h.Watch(c, nil)
			var parts sync.WaitGroup
			for range 4 {
				parts.Go(func() { w.Event(text("a")); w.Event(thinking("b")) })
			}
			parts.Wait()
			w.Ended(c)
		})
	}
	await.Return(t, callers.Wait, "the calls")
	if h.Count() != 0 {
		t.Errorf("%d calls are open", h.Count())
	}
	cancel()
	await.Return(t, readers.Wait, "the readers")
}

func BenchmarkEvent(b *testing.B) {
	h := New(time.Now)
	w := h.Watch(call("c"), nil)
	e := text("a piece of text")
	b.ReportAllocs()
	for b.Loop() {
		w.Event(e)
	}
}

func TestStopEndsSubscriptions(t *testing.T) {
	h := New(time.Now)
	ended := make(chan struct{}, 2)
	var joined sync.WaitGroup
	joined.Add(1)
	updates := h.Subscribe(t.Context())
	go func() {
		joined.Done()
		for range updates {
		}
		ended <- struct{}{}
	}()
	await.Return(t, joined.Wait, "the subscribers")
	h.Stop()
	await.Receive(t, ended, "the end of the subscription")
	for range h.Subscribe(t.Context()) { // one that begins later ends at once
		t.Error("an update")
	}
	if w := h.Watch(&perigee.Call{ID: "c1"}, &perigee.Origin{}); w == nil || h.Count() != 1 || !h.Stopped() {
		t.Error("calls are not followed any more")
	}
}
