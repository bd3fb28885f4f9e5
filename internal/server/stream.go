package server

import (
	"net/http"
	"strings"
	"sync"
	"time"

	"perigee"
	"perigee/internal/server/mount"
	"perigee/internal/server/reqbody"
)

// writeLimit is how long a client may take to read more of its answer before its connection is
// given up.
const writeLimit = 2 * time.Minute

// chunkBuffers pools the buffers that chunks are written into. A stream has one only while it has
// bytes to send, because thousands may be open and silent.
var chunkBuffers = sync.Pool{New: func() any { return new(make([]byte, 0, 4<<10)) }}

// gather is the number of bytes that are buffered, while more are available, before they are sent.
// A client that reads slowly holds a buffer of about this size.
const gather = 16 << 10

// A streamEncoder encodes a streamed answer in a dialect. Each method appends to dst, possibly
// nothing.
type streamEncoder interface {
	ContentType() string
	Encode(dst []byte, ev *perigee.Event) []byte
	End(dst []byte) []byte                                  // after the last event
	Fail(dst []byte, status int, err *perigee.Error) []byte // instead of the end
	Idle(dst []byte) []byte                                 // a keep-alive
}

// repeatPause is how long an error is repeated after the first time. Clients that have not read the
// first by then get both in one read.
const repeatPause = 500 * time.Millisecond

// An errorRepeater is the encoder of a dialect with clients that notice an error only when it is
// repeated in a separate read.
type errorRepeater interface {
	RepeatError(dst []byte, status int, err *perigee.Error) []byte // after Fail; may add nothing
}

// A flushingEncoder is the encoder of a dialect with events as long as the whole answer. It flushes
// them in pieces while it appends them.
type flushingEncoder interface {
	SetFlush(f func(buf []byte) []byte)
}

// An answerKeeper is an encoder that keeps the answer until its end, unless Keeps returns false.
type answerKeeper interface{ Keeps() bool }

// A streamWriter writes a streamed answer: the head with the first chunk or the first keep-alive,
// then chunk by chunk, each sent at once.
type streamWriter struct {
	call    *call
	encoder streamEncoder
	control *http.ResponseController

	mu       sync.Mutex // the timer writes too
	timer    *time.Timer
	pooled   *[]byte // from chunkBuffers, the initial buf; nil if buf is empty
	buf      []byte  // the pending output
	deadline time.Time
	err      error // of the connection: from then on nothing is written
	closed   bool
}

// stream answers with a stream of events.
func (c *call) stream(req *perigee.Request, enc streamEncoder) error {
	w := &streamWriter{call: c, encoder: enc, control: http.NewResponseController(c.w)}
	if long, ok := enc.(flushingEncoder); ok {
		long.SetFlush(w.flushPiece)
	}
	w.mu.Lock() // keepAlive uses the timer, and may run before we have it
	w.timer = time.AfterFunc(c.state.KeepAlive, w.keepAlive)
	w.mu.Unlock()
	defer w.stop()
	c.routed = true
	var kept perigee.Tally
	keeper, keeps := enc.(answerKeeper)
	var ev perigee.Event // one for all, because its address goes to the encoder
	for next, err := range c.opts.Upstream.Stream(c.r.Context(), req) {
		if err != nil {
			return w.fail(err)
		}
		ev = next
		if ev.Kind == perigee.EventStart {
			w.start(&ev)
		}
		if keeps && keeper.Keeps() {
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
		w.call.setHeader(ev.Header)
	}
}

// head sends the status and the headers, once.
func (w *streamWriter) head() {
	c := w.call
	if c.wrote {
		return
	}
	mount.StreamHeader(c.w.Header(), w.encoder.ContentType())
	c.note(c.log.AllNotes())
	c.writeHead(http.StatusOK)
}

// note sets the header for notes.
func (c *call) note(notes []perigee.Note) {
	if len(notes) == 0 {
		return
	}
	list := make([]string, len(notes))
	for i, n := range notes {
		list[i] = n.String()
	}
	c.w.Header().Set("X-Perigee-Notes", mount.HeaderSafe(strings.Join(list, "; ")))
}

// tapAnswer shows a piece of the answer to the tap of the call, if it has one.
func (c *call) tapAnswer(piece []byte) {
	if tap := c.log.Tap(); tap != nil {
		tap.Body(perigee.TapClientAnswer, piece)
	}
}

func (w *streamWriter) event(ev *perigee.Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := len(w.buffer())
	w.buf = w.encoder.Encode(w.buf, ev)
	content := len(w.buf) != before && ev.Kind != perigee.EventStart // which may be long: it may repeat the request
	switch {
	case len(w.buf) == 0:
		w.putBuffer()
		return nil
	case ev.More && (len(w.buf) < gather || !content):
		return nil
	}
	return w.flush()
}

// buffer is where the next chunk is appended.
func (w *streamWriter) buffer() []byte {
	if w.pooled == nil {
		w.pooled = chunkBuffers.Get().(*[]byte)
		w.buf = *w.pooled
	}
	return w.buf
}

// putBuffer returns the buffer to the pool, as large as it has become.
func (w *streamWriter) putBuffer() {
	if w.pooled == nil {
		return
	}
	if cap(w.buf) <= reqbody.MaxPooled {
		*w.pooled = w.buf[:0]
	}
	chunkBuffers.Put(w.pooled)
	w.pooled, w.buf = nil, nil
}

func (w *streamWriter) finish() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buf = w.encoder.End(w.buffer())
	_ = w.flush()
}

// fail ends the answer with an error: as an ordinary error answer while nothing has been sent,
// inside the stream afterwards.
func (w *streamWriter) fail(err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.call.wrote && len(w.buf) == 0 {
		w.closed = true
		w.call.note(w.call.log.Notes())
		return err
	}
	e := w.call.clientError(err)
	status := e.HTTPStatus(w.call.dialect.name)
	w.buf = w.encoder.Fail(w.buffer(), status, e)
	again, ok := w.encoder.(errorRepeater)
	if w.flush() != nil || !ok {
		return nil
	}
	if w.buf = again.RepeatError(w.buffer(), status, e); len(w.buf) > 0 {
		select {
		case <-time.After(repeatPause):
		case <-w.call.r.Context().Done():
		}
		_ = w.flush()
	}
	return nil
}

// flush sends the pending output, after the head. It fails if the client does not read for too
// long.
func (w *streamWriter) flush() error {
	w.head()
	if w.err != nil {
		return w.err
	}
	if now := time.Now(); w.deadline.Sub(now) < writeLimit/2 {
		w.deadline = now.Add(writeLimit)
		// Not every writer supports deadlines; then there is no limit.
		_ = w.control.SetWriteDeadline(w.deadline)
	}
	w.call.tapAnswer(w.buf)
	if _, w.err = w.call.w.Write(w.buf); w.err == nil {
		w.err = w.control.Flush()
	}
	w.putBuffer()
	w.timer.Reset(w.call.state.KeepAlive)
	return w.err
}

// flushPiece sends the output of an encoder that is still appending. The lock is held. After a
// connection error the output is discarded.
func (w *streamWriter) flushPiece(buf []byte) []byte {
	w.buf = buf
	_ = w.flush()
	return w.buffer()[:0]
}

// keepAlive runs when the stream has been quiet for a while.
func (w *streamWriter) keepAlive() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || w.call.r.Context().Err() != nil {
		return
	}
	if w.buf = w.encoder.Idle(w.buffer()); len(w.buf) == 0 {
		w.putBuffer()
		return
	}
	_ = w.flush()
}

// stop ends the use of the writer. It drops the call and its request, which may be large: the
// runtime keeps the timer of a stream, and with it the writer, for some time after the timer was
// stopped.
func (w *streamWriter) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.timer.Stop()
	w.putBuffer()
	if long, ok := w.encoder.(flushingEncoder); ok {
		long.SetFlush(nil) // the encoder may be asked for the whole answer after this
	}
	w.call, w.encoder, w.control = nil, nil, nil
}

// A collector collects the events of an answer for a client that does not stream.
type collector interface {
	Add(ev *perigee.Event)
	Bytes() []byte
}

// whole answers in one piece.
func (c *call) whole(req *perigee.Request, into collector) error {
	c.routed = true
	for ev, err := range c.opts.Upstream.Stream(c.r.Context(), req) {
		if err != nil {
			c.note(c.log.Notes())
			return err
		}
		if ev.Kind == perigee.EventStart {
			c.describe(ev.Upstream, ev.Model)
			c.setHeader(ev.Header)
		}
		c.content += ev.Size()
		into.Add(&ev)
	}
	body := into.Bytes()
	c.note(c.log.Notes())
	c.writeJSON(http.StatusOK, body)
	return nil
}
