package httpapi

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"perigee"
)

// writeLimit is how long a client may take to make room for more of its answer before it counts as gone.
const writeLimit = 2 * time.Minute

// A framing is how a dialect puts the chunks of a streamed answer on the wire.
type framing interface {
	contentType() string
	chunk(dst, chunk []byte) []byte // one chunk of the answer
	idle(dst []byte) []byte         // a sign of life that means nothing
	end(dst []byte) []byte          // the end of the answer, after the last chunk or error
}

// An encoder turns the events of an answer into chunks.
type encoder interface {
	Encode(dst []byte, ev *perigee.Event) []byte
	Close(dst []byte) []byte
}

// A streamWriter writes a streamed answer: the head when the first chunk comes or when the client has waited
// so long that it needs a sign of life, then chunk by chunk, each sent at once.
type streamWriter struct {
	call    *call
	framing framing
	control *http.ResponseController

	mu       sync.Mutex // the timer writes too
	timer    *time.Timer
	buf      []byte
	notes    []string
	deadline time.Time
	err      error // of the connection: from then on nothing is written
	closed   bool
}

// stream answers with a stream of events.
func (c *call) stream(req *perigee.Request, enc encoder, framing framing) error {
	w := &streamWriter{call: c, framing: framing, control: http.NewResponseController(c.w)}
	for _, n := range req.Notes {
		w.notes = append(w.notes, n.String())
	}
	w.timer = time.AfterFunc(c.opts.KeepAlive, w.keepAlive)
	defer w.stop()
	var chunk []byte
	c.asked = true
	for ev, err := range c.opts.Upstream.Stream(c.r.Context(), req) {
		if err != nil {
			return w.fail(err)
		}
		switch ev.Kind {
		case perigee.EventStart:
			w.start(&ev)
		case perigee.EventNote:
			w.note(ev.Note)
		}
		if chunk = enc.Encode(chunk[:0], &ev); len(chunk) > 0 {
			if err := w.chunk(chunk); err != nil {
				return nil // the client is gone: leaving the loop ends the call
			}
		}
	}
	w.finish(enc.Close(chunk[:0]))
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
	c.wrote = true
	h := c.w.Header()
	h.Set("Content-Type", w.framing.contentType())
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no") // nginx would gather the stream otherwise
	setNotes(h, w.notes)
	c.w.WriteHeader(http.StatusOK)
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

func (w *streamWriter) chunk(chunk []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.head()
	w.buf = w.framing.chunk(w.buf[:0], chunk)
	return w.flush()
}

func (w *streamWriter) finish(last []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.head()
	w.buf = w.buf[:0]
	if len(last) > 0 {
		w.buf = w.framing.chunk(w.buf, last)
	}
	w.buf = w.framing.end(w.buf)
	if len(w.buf) > 0 {
		_ = w.flush()
	}
}

// fail ends the answer with an error: as an ordinary error answer while nothing has been sent, inside the
// stream afterwards.
func (w *streamWriter) fail(err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.call.wrote {
		w.closed = true
		setNotes(w.call.w.Header(), w.notes)
		return err
	}
	e := w.call.trouble(err)
	w.buf = w.framing.chunk(w.buf[:0], encodeError[w.call.dialect](statusOf(e), e))
	w.buf = w.framing.end(w.buf)
	_ = w.flush()
	return nil
}

// flush sends the buffer on its way. A client that does not read for too long is given up.
func (w *streamWriter) flush() error {
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
	if cap(w.buf) > 64<<10 {
		w.buf = nil // one large chunk should not weigh on a long stream
	}
	w.timer.Reset(w.call.opts.KeepAlive)
	return w.err
}

// keepAlive runs when the stream has been quiet for a while.
func (w *streamWriter) keepAlive() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || w.call.r.Context().Err() != nil {
		return
	}
	w.head()
	w.buf = w.framing.idle(w.buf[:0])
	_ = w.flush()
}

func (w *streamWriter) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.timer.Stop()
	if !w.deadline.IsZero() {
		_ = w.control.SetWriteDeadline(time.Time{}) // the connection may serve another request
	}
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
			setNotes(c.w.Header(), notes)
			return err
		}
		switch ev.Kind {
		case perigee.EventStart:
			c.describe(ev.Upstream, ev.Model)
		case perigee.EventNote:
			notes = append(notes, ev.Note.String())
		}
		into.Add(&ev)
	}
	setNotes(c.w.Header(), notes)
	c.writeJSON(http.StatusOK, into.Bytes())
	return nil
}
