package trace

import (
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"time"
	"unsafe"

	"perigee"
)

// A watcher collects the data of a call for the writing goroutine.
type watcher struct {
	store   *Store
	began   time.Time // of the call, by the clock of the Store
	watched time.Time // when the Store began to watch it
	id      string
	bodies  bool
	origin  origin
	max     int64 // bytes of a file

	mu      sync.Mutex
	call    perigee.Call // the record so far
	ended   time.Time    // when call was complete; zero if it is not
	done    bool         // the client has received everything
	queued  bool         // in Store.open or Store.urgent
	urgent  bool         // in Store.urgent
	waiting int          // bytes
	begun   bool         // it has a directory, or will have one
	gone    bool         // no more data is collected: it is not traced, or cannot be written

	request, answer, events *file // of the client
	exchanges               []*exchange
	attempts                []attempt

	now  time.Duration // when the last event came, since the call began
	more bool          // the next event comes at the same time

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
	perigee.RequestTap
	perigee.AttemptTap
} = (*watcher)(nil)

func newWatcher(s *Store, call *perigee.Call, from *perigee.Origin) *watcher {
	w := &watcher{
		store: s, began: call.Time, watched: time.Now(), call: *call, id: call.ID,
		bodies: s.bodies.Load(), max: min(maxFile, max(s.keep.Load()/4, 64<<10)), queued: true,
		origin: origin{from.Method, from.Path, from.Replay.Of, from.Header.Clone()},
	}
	if w.bodies {
		w.request, w.answer = &file{name: ClientRequestName}, &file{name: ClientResponseName}
		w.events = &file{name: EventsName}
	}
	return w
}

// path returns the path of the directory, relative to the directory of all traces.
func (w *watcher) path() string { return filepath.Join(w.place()) }

// place returns the name of the directory, and of the directory of the day that it is in.
func (w *watcher) place() (day, name string) {
	utc := w.began.UTC()
	return utc.Format(dayLayout), utc.Format(timeLayout) + "-" + w.id
}

func (w *watcher) since() time.Duration { return max(w.store.opts.Now().Sub(w.began), 0) }

// Body copies a body, or a piece of one.
func (w *watcher) Body(at perigee.TapPoint, pieces ...[]byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.fileAt(at)
	if f == nil || w.gone {
		return
	}
	for _, p := range pieces {
		w.append(f, p)
	}
	f.complete = f.complete || at == perigee.TapClientRequest || at == perigee.TapProviderRequest
	w.enqueue()
}

// minRetained is the size from which on a request is retained. Smaller ones are copied, so that
// their buffers are free for other calls.
const minRetained = 16 << 10

// Request retains a request, or copies it if it is small or in a much larger buffer.
func (w *watcher) Request(at perigee.TapPoint, buffer *perigee.Buffer, pieces ...[]byte) {
	size, memory := 0, 0
	for _, p := range pieces {
		size, memory = size+len(p), memory+cap(p)
	}
	if size < minRetained || memory > 4*size || int64(size) > w.max || !buffer.Retain() {
		w.Body(at, pieces...)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.fileAt(at)
	if f == nil || w.gone {
		buffer.Release()
		return
	}
	weight := 0
	for _, p := range pieces {
		// The client's own bytes may be sent to the provider, or a part of them.
		if w.request == nil || w.request.pending.buffer == nil || !within(p, w.request.pending.chunks) {
			weight += cap(p)
		}
	}
	if f.complete = true; w.store.hold(int64(weight)) {
		f.pending, f.size = pending{slices.Clone(pieces), buffer, int64(weight)}, int64(size)
		w.waiting += size
	} else {
		f.truncated = TruncatedLate
		buffer.Release()
	}
	w.enqueue()
}

// within reports whether data is in the memory of one of the chunks.
func within(data []byte, chunks [][]byte) bool {
	at := uintptr(unsafe.Pointer(unsafe.SliceData(data)))
	return slices.ContainsFunc(chunks, func(chunk []byte) bool {
		return at-uintptr(unsafe.Pointer(unsafe.SliceData(chunk))) < uintptr(len(chunk))
	})
}

// fileAt returns the file of a body; nil if it is not written.
func (w *watcher) fileAt(at perigee.TapPoint) *file {
	switch at {
	case perigee.TapClientRequest:
		return w.request
	case perigee.TapProviderRequest:
		return w.beginExchange()
	case perigee.TapProviderAnswer:
		return w.answerOf()
	case perigee.TapClientAnswer:
		return w.answer
	}
	return nil
}

// append copies bytes to the pending data of a file, as far as its maximum size and the queue
// allow.
func (w *watcher) append(f *file, data []byte) {
	if f.truncated != "" {
		return
	}
	if room := w.max - f.size; int64(len(data)) > room {
		data, f.truncated = data[:room], TruncatedSize
	}
	p := &f.pending
	for len(data) > 0 {
		if class, needed := p.grow(len(data)); needed {
			size := int64(chunkSizes[class])
			if !w.store.hold(size) {
				f.truncated = TruncatedLate
				return
			}
			p.chunks, p.weight = append(p.chunks, newChunk(class)), p.weight+size
		}
		chunk := &p.chunks[len(p.chunks)-1]
		n := min(len(data), cap(*chunk)-len(*chunk))
		*chunk = append(*chunk, data[:n]...)
		data, f.size, w.waiting = data[n:], f.size+int64(n), w.waiting+n
	}
}

// size returns the bytes of all bodies.
func (w *watcher) size() (size int64) {
	for _, f := range w.files() {
		if f != nil {
			size += f.size
		}
	}
	return size
}

// enqueue queues the call to be written: at once if many bytes wait or the call is over, otherwise
// after flushPause. A call that has succeeded while the budget is spent is dropped.
func (w *watcher) enqueue() {
	over := w.over()
	switch {
	case w.gone:
		return
	case over && w.expendable() && (w.crowded() || !w.urgent && w.store.stage(w.size()) == stageSpent):
		w.discard()
		return
	}
	urgent := !w.urgent && (over || w.begun && w.waiting >= urgentSize)
	if w.queued && !urgent {
		return
	}
	w.queued, w.urgent = true, w.urgent || urgent
	w.store.enqueue(w, urgent)
}

// expendable reports whether the call, which is over, can be dropped.
func (w *watcher) expendable() bool { return !w.begun && w.call.Outcome == perigee.OutcomeDone }

// crowded reports whether the call, which is over, is large, and another such call waits to be
// written. With more of them, memory would be several times as large as the bodies.
func (w *watcher) crowded() bool {
	large := &w.store.large
	return w.store.opts.Share < 1 && w.size() > sampleSize && !large.CompareAndSwap(nil, w) && large.Load() != w
}

// discard drops the data of a call that is not traced.
func (w *watcher) discard() {
	w.store.skip()
	w.store.forget(w)
	w.drop()
}

// drop drops all pending data. No more is collected.
func (w *watcher) drop() {
	w.gone = true
	w.store.large.CompareAndSwap(w, nil)
	for _, f := range w.files() {
		w.dropFile(f)
	}
}

// dropFile drops the pending data of a file, which may be nil.
func (w *watcher) dropFile(f *file) {
	if f != nil {
		for _, c := range f.pending.chunks {
			w.waiting -= len(c)
		}
		w.store.release(&f.pending)
	}
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
	if !w.bodies {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.more {
		w.now = w.since()
	}
	w.more = e.More
	if e.Kind == perigee.EventFlush || e.Kind == perigee.EventFrame || e.Kind == perigee.EventCallPart {
		return
	}
	line := lines.Get().(*[]byte)
	defer lines.Put(line)
	*line = appendEvent((*line)[:0], e, w.now)
	if e.Kind == perigee.EventStart {
		w.call.Upstream, w.call.Account, w.call.Model = e.Upstream, e.Account, e.Model
	}
	if w.gone {
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
