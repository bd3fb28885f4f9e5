package trace

import (
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"perigee"
)

// A watcher collects the data of a call for the writing goroutine.
type watcher struct {
	store  *Store
	began  time.Time // of the call, by the clock of the Store
	day    string
	name   string // of the directory
	bodies bool
	origin origin
	max    int64 // bytes of a file

	mu      sync.Mutex
	call    perigee.Call // the record so far
	ended   time.Time    // when call was complete; zero if it is not
	done    bool         // the client has received everything
	queued  bool         // in Store.open or Store.urgent
	urgent  bool         // in Store.urgent
	waiting int          // bytes
	failed  bool         // the directory cannot be written, and no more data is collected

	request, answer, events *file // of the client
	exchanges               []*exchange
	attempts                []attempt

	// Of the writing goroutine.
	entry   *entry
	meta    int64 // the size of meta.json; 0 if it is not written
	final   bool  // it has the outcome
	missing int   // the number of files that it lists as truncated
}

// An origin has the parts of the client's request that meta.json shows. They contain credentials.
type origin struct {
	method, path, replayOf string
	header                 http.Header
}

// An exchange is one request to a provider.
type exchange struct {
	request, answer *file
	started         time.Duration // since the call began
	answered        time.Duration // when the status arrived; 0 if it did not
	firstByte       time.Duration // 0 if there was none
	status          int
	endpoint        string
}

// An attempt is an attempt of the call, with the time of its end.
type attempt struct {
	perigee.Attempt
	ended     time.Duration
	exchanges int // the number of exchanges at that time
}

var _ interface {
	perigee.Watcher
	perigee.AttemptTap
} = (*watcher)(nil)

func newWatcher(s *Store, call *perigee.Call, from *perigee.Origin) *watcher {
	utc := call.Time.UTC()
	w := &watcher{
		store: s, began: call.Time, call: *call, day: utc.Format(dayLayout), name: utc.Format(timeLayout) + "-" + call.ID,
		bodies: s.bodies.Load(), max: min(maxFile, max(s.keep.Load()/4, 64<<10)), queued: true, urgent: true,
		origin: origin{from.Method, from.Path, from.Replay.Of, from.Header.Clone()},
	}
	if w.bodies {
		w.request, w.answer = &file{name: ClientRequestName}, &file{name: ClientResponseName}
		w.events = &file{name: EventsName}
	}
	return w
}

// path returns the path of the directory, relative to the directory of all traces.
func (w *watcher) path() string { return filepath.Join(w.day, w.name) }

func (w *watcher) since() time.Duration { return max(w.store.opts.Now().Sub(w.began), 0) }

// Body copies a body, or a piece of one.
func (w *watcher) Body(at perigee.TapPoint, pieces ...[]byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var f *file
	switch at {
	case perigee.TapClientRequest:
		f = w.request
	case perigee.TapProviderRequest:
		f = w.beginExchange()
	case perigee.TapProviderAnswer:
		f = w.answerOf()
	case perigee.TapClientAnswer:
		f = w.answer
	}
	if f == nil || w.failed {
		return
	}
	n := 0
	for _, p := range pieces {
		n += w.append(f, p)
	}
	f.complete = f.complete || at == perigee.TapClientRequest || at == perigee.TapProviderRequest
	w.store.budget.chargeCopy(n)
	w.enqueue()
}

// append copies bytes to the pending data of a file, as far as its maximum size and the queue
// allow, and returns how many it has copied.
func (w *watcher) append(f *file, data []byte) int {
	if len(data) == 0 || f.truncated != "" {
		return 0
	}
	room := w.max - f.size
	if int64(len(data)) > room {
		data, f.truncated = data[:room], TruncatedSize
	}
	if w.store.queued.Add(int64(len(data))) > maxQueue {
		w.store.queued.Add(-int64(len(data)))
		f.truncated = TruncatedLate
		return 0
	}
	f.add(data)
	w.waiting += len(data)
	return len(data)
}

// enqueue queues the call to be written: at once if many bytes wait or the call is over, otherwise
// after flushPause.
func (w *watcher) enqueue() {
	urgent := !w.urgent && (w.waiting >= urgentSize || w.over())
	if w.queued && !urgent {
		return
	}
	w.queued, w.urgent = true, w.urgent || urgent
	w.store.enqueue(w, urgent)
}

// patience is how long the record of a call waits for a client that still reads.
const patience = time.Second

// over reports whether the call has ended. A client that reads slowly may get more of the answer
// afterwards.
func (w *watcher) over() bool {
	return !w.ended.IsZero() && (w.done || time.Since(w.ended) > patience)
}

// beginExchange returns the file of a request to a provider.
func (w *watcher) beginExchange() *file {
	e, number := &exchange{started: w.since()}, len(w.exchanges)+1
	if len(w.exchanges) < maxTries {
		w.exchanges = append(w.exchanges, e)
		if w.bodies {
			e.request, e.answer = &file{name: UpstreamRequest(number)}, &file{exchange: number}
		}
	}
	return e.request
}

// maxTries is how many requests to providers a trace has at most. A call with more repeats itself.
const maxTries = 100

// current returns the last request to a provider, or nil if there is none.
func (w *watcher) current() *exchange {
	if len(w.exchanges) == 0 {
		return nil
	}
	return w.exchanges[len(w.exchanges)-1]
}

// answerOf returns the file of the answer to the current request, or nil if there is no request.
func (w *watcher) answerOf() *file {
	e := w.current()
	if e == nil {
		return nil
	}
	if e.firstByte == 0 {
		e.firstByte = max(w.since(), 1)
	}
	return e.answer
}

// ProviderEndpoint records the endpoint that the current request is sent to.
func (w *watcher) ProviderEndpoint(endpoint string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e := w.current(); e != nil {
		e.endpoint = endpoint
	}
}

// ProviderStatus records the status of the answer to the current request.
func (w *watcher) ProviderStatus(status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e := w.current(); e != nil {
		e.status, e.answered = status, max(w.since(), 1)
	}
}

// Attempted records an attempt that has ended.
func (w *watcher) Attempted(a *perigee.Attempt) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.attempts) < maxTries {
		w.attempts = append(w.attempts, attempt{*a, w.since(), len(w.exchanges)})
	}
}

// Event writes an event as a line of JSON. A frame has none: its events follow it, and its bytes
// are in the bodies.
func (w *watcher) Event(e *perigee.Event) {
	if !w.bodies || e.Kind == perigee.EventFlush || e.Kind == perigee.EventFrame {
		return
	}
	line := lines.Get().(*[]byte)
	defer lines.Put(line)
	*line = appendEvent((*line)[:0], e, w.since())
	w.mu.Lock()
	defer w.mu.Unlock()
	if e.Kind == perigee.EventStart {
		w.call.Upstream, w.call.Account, w.call.Model = e.Upstream, e.Account, e.Model
	}
	if w.failed {
		return
	}
	w.append(w.events, *line)
	w.enqueue()
}

// Ended takes the record of the call.
func (w *watcher) Ended(c *perigee.Call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.call, w.ended = *c, time.Now()
	w.enqueue()
}

// Done ends the answer to the client.
func (w *watcher) Done() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done = true
	w.enqueue()
}
