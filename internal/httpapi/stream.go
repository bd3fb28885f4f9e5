package httpapi

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"perigee"
)

// writeLimit is how long a client may take to make room for more of its answer before it counts as gone.
const writeLimit = 2 * time.Minute

// chunkRooms keeps the memory that chunks are written into, for all streams: a stream has some only while it has something to
// say, because thousands may be open and silent, and a large chunk finds the room that an earlier one needed.
var chunkRooms = sync.Pool{New: func() any { return new(make([]byte, 0, 4<<10)) }}

// gather is how many bytes are gathered, while more are at hand, before they are sent together. Every client that reads slowly
// keeps about so many waiting.
const gather = 16 << 10

// A streamEncoder is how a dialect puts a streamed answer on the wire. Each method appends to dst; what an event
// adds may be nothing.
type streamEncoder interface {
	ContentType() string
	Encode(dst []byte, ev *perigee.Event) []byte
	End(dst []byte) []byte                                  // after the last event
	Fail(dst []byte, status int, err *perigee.Error) []byte // instead of the end
	Idle(dst []byte) []byte                                 // a keep-alive
}

// repeatPause is how long an error is repeated after the first time. Clients that have not read the first by then get both in one read.
const repeatPause = 500 * time.Millisecond

// An errorRepeater is a dialect some of whose clients notice an error only when it comes again, in a read of its own.
type errorRepeater interface {
	RepeatError(dst []byte, status int, err *perigee.Error) []byte // after Fail; may add nothing
}

// A flushingEncoder is a dialect whose events may be as long as the whole answer. It hands them on in pieces while it appends them.
type flushingEncoder interface {
	SetFlush(f func(buf []byte) []byte)
}

// A streamWriter writes a streamed answer: the head when the first chunk comes or when the client has waited
// so long that it needs a sign of life, then chunk by chunk, each sent at once.
type streamWriter struct {
	call    *call
	encoder streamEncoder
	control *http.ResponseController

	mu       sync.Mutex // the timer writes too
	timer    *time.Timer
	room     *[]byte // of chunkRooms, whose memory buf began in
	buf      []byte  // what was gathered
	notes    []string
	late     *perigee.LateNotes
	pending  *perigee.LateNotes
	deadline time.Time
	err      error // of the connection: from then on nothing is written
	closed   bool
}

// stream answers with a stream of events.
func (c *call) stream(req *perigee.Request, enc streamEncoder) error {
	if req.Pending == nil {
		req.Pending = &perigee.LateNotes{}
	}
	w := &streamWriter{call: c, encoder: enc, control: http.NewResponseController(c.w), late: req.Late, pending: req.Pending}
	if long, ok := enc.(flushingEncoder); ok {
		long.SetFlush(w.flushPiece)
	}
	for _, n := range req.Notes {
		w.notes = append(w.notes, n.String())
	}
	w.mu.Lock() // keepAlive uses the timer, and may run before we have it
	w.timer = time.AfterFunc(c.state.KeepAlive, w.keepAlive)
	w.mu.Unlock()
	defer w.stop()
	c.asked = true
	var kept perigee.Tally
	var ev perigee.Event // one for all, because its address goes to the encoder
	for next, err := range c.opts.Upstream.Stream(c.r.Context(), req) {
		if err != nil {
			return w.fail(err)
		}
		ev = next
		switch ev.Kind {
		case perigee.EventStart:
			w.start(&ev)
		case perigee.EventNote:
			w.note(ev.Note)
		}
		if c.keeps {
			c.content += ev.Size()
			if err := kept.Add(&req.Origin, keptFactor*ev.Size()); err != nil {
				return w.fail(err)
			}
		}
		if err := w.event(&ev); err != nil {
			return nil // the client is gone: leaving the loop ends the call
		}
	}
	w.finish()
	return nil
}

func (w *streamWriter) start(ev *perigee.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.call.wrote {
		w.call.describe(ev.Upstream, ev.Model)
	}
}

func (w *streamWriter) note(n *perigee.Note) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notes = append(w.notes, n.String())
}

// head sends the status and the headers, once.
func (w *streamWriter) head() {
	c := w.call
	if c.wrote {
		return
	}
	h := c.w.Header()
	h.Set("Content-Type", w.encoder.ContentType())
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no") // nginx would gather the stream otherwise
	setNotes(h, withLate(w.notes, w.pending, w.late))
	c.writeHead(http.StatusOK)
}

// withLate is notes and those of the lists that are not among them.
func withLate(notes []string, lists ...*perigee.LateNotes) []string {
	for _, list := range lists {
		for _, n := range list.All() {
			if text := n.String(); !slices.Contains(notes, text) {
				notes = append(slices.Clip(notes), text)
			}
		}
	}
	return notes
}

func setNotes(h http.Header, notes []string) {
	if len(notes) > 0 {
		h.Set("X-Perigee-Notes", headerSafe(strings.Join(notes, "; ")))
	}
}

// note sets the header for notes that are all known before the answer.
func (c *call) note(notes []perigee.Note) {
	var list []string
	for _, n := range notes {
		list = append(list, n.String())
	}
	setNotes(c.w.Header(), list)
}

func (w *streamWriter) event(ev *perigee.Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buf = w.encoder.Encode(w.space(), ev)
	switch {
	case len(w.buf) == 0:
		w.vacate()
		return nil
	case ev.More && len(w.buf) < gather:
		return nil
	}
	return w.flush()
}

// space is where the next chunk is appended.
func (w *streamWriter) space() []byte {
	if w.room == nil {
		w.room = chunkRooms.Get().(*[]byte)
		w.buf = *w.room
	}
	return w.buf
}

// vacate gives the room back, as large as it has become.
func (w *streamWriter) vacate() {
	if w.room == nil {
		return
	}
	if cap(w.buf) <= maxPooled {
		*w.room = w.buf[:0]
	}
	chunkRooms.Put(w.room)
	w.room, w.buf = nil, nil
}

func (w *streamWriter) finish() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buf = w.encoder.End(w.space())
	_ = w.flush()
}

// fail ends the answer with an error: as an ordinary error answer while nothing has been sent, inside the
// stream afterwards.
func (w *streamWriter) fail(err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.call.wrote && len(w.buf) == 0 {
		w.closed = true
		setNotes(w.call.w.Header(), withLate(w.notes, w.late))
		return err
	}
	e := w.call.trouble(err)
	status := statusOf(w.call.dialect, e)
	w.buf = w.encoder.Fail(w.space(), status, e)
	again, ok := w.encoder.(errorRepeater)
	if w.flush() != nil || !ok {
		return nil
	}
	if w.buf = again.RepeatError(w.space(), status, e); len(w.buf) > 0 {
		select {
		case <-time.After(repeatPause):
		case <-w.call.r.Context().Done():
		}
		_ = w.flush()
	}
	return nil
}

// flush sends what was gathered on its way, after the head. A client that does not read for too long is given up.
func (w *streamWriter) flush() error {
	w.head()
	if w.err != nil {
		return w.err
	}
	if now := time.Now(); w.deadline.Sub(now) < writeLimit/2 {
		w.deadline = now.Add(writeLimit)
		_ = w.control.SetWriteDeadline(w.deadline) // not every writer can; then there is no limit
	}
	if _, w.err = w.call.w.Write(w.buf); w.err == nil {
		w.err = w.control.Flush()
	}
	w.vacate()
	w.timer.Reset(w.call.state.KeepAlive)
	return w.err
}

// flushPiece sends what an encoder has appended while it goes on appending. The lock is held. After an error of the connection there
// is nowhere to send it.
func (w *streamWriter) flushPiece(buf []byte) []byte {
	w.buf = buf
	_ = w.flush()
	return w.space()[:0]
}

// keepAlive runs when the stream has been quiet for a while.
func (w *streamWriter) keepAlive() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || w.call.r.Context().Err() != nil {
		return
	}
	if w.buf = w.encoder.Idle(w.space()); len(w.buf) == 0 {
		w.vacate()
		return
	}
	_ = w.flush()
}

// stop ends the use of the writer. It lets go of the call and its request, which may be large: the runtime keeps the timer of a
// stream, and with it the writer, for some time after the timer was stopped.
func (w *streamWriter) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.timer.Stop()
	w.vacate()
	if long, ok := w.encoder.(flushingEncoder); ok {
		long.SetFlush(nil) // the encoder may be asked for the whole answer after this
	}
	w.call, w.encoder, w.control, w.late, w.pending = nil, nil, nil, nil, nil
}

// A collector gathers the events of an answer for a client that does not stream.
type collector interface {
	Add(ev *perigee.Event)
	Bytes() []byte
}

// whole answers in one piece.
func (c *call) whole(ctx context.Context, req *perigee.Request, into collector) error {
	var notes []string
	for _, n := range req.Notes {
		notes = append(notes, n.String())
	}
	c.asked = true
	for ev, err := range c.opts.Upstream.Stream(ctx, req) {
		if err != nil {
			setNotes(c.w.Header(), withLate(notes, req.Late))
			return err
		}
		switch ev.Kind {
		case perigee.EventStart:
			c.describe(ev.Upstream, ev.Model)
		case perigee.EventNote:
			notes = append(notes, ev.Note.String())
		}
		c.content += ev.Size()
		into.Add(&ev)
	}
	body := into.Bytes()
	setNotes(c.w.Header(), withLate(notes, req.Late))
	c.writeJSON(http.StatusOK, body)
	return nil
}
