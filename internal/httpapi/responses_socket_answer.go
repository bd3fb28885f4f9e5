package httpapi

import (
	"bytes"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/coder/websocket"

	"perigee"
	"perigee/internal/dialect/openai"
)

// answer makes one answer. It is a call of its own: the key that the socket was opened with is looked at again, because
// it may have been taken away meanwhile.
func (s *socket) answer(r *socketRequest) {
	s.active.Add(1)
	defer s.active.Add(-1)
	shake := s.shake
	c := &call{Server: s.Server, state: s.settings.Load(), r: shake.r.WithContext(s.ctx), id: s.opts.NewID(), start: s.opts.Now(),
		path: shake.path, dialect: perigee.DialectOpenAIResponses, trusted: shake.trusted}
	c.w = &socketWriter{socket: s, stream: r.stream, header: http.Header{"X-Perigee-Call": {c.id}}}
	c.hold(r.body)
	defer c.hold(nil)
	defer s.survive(c)
	if err := c.answerSocket(s, r); err != nil {
		c.fail(err)
	}
}

// survive ends the answer of a call that panicked. Where it had begun, nobody knows what the client has got of it, so the
// socket ends, too.
func (s *socket) survive(c *call) {
	v := recover()
	if v == nil {
		return
	}
	c.opts.Logger.Error("panic behind a socket", "call", c.id, "panic", v, "stack", string(debug.Stack()))
	if c.wrote {
		_ = s.conn.Close(websocket.StatusInternalError, "internal error")
		return
	}
	c.fail(perigee.Errorf(perigee.ClassInternal, "internal error").WithNext("the log has the details of call %s; please report it", c.id))
}

// answerSocket takes a request past the guards that are not about the socket as a whole.
func (c *call) answerSocket(s *socket, r *socketRequest) error {
	if err := c.authenticate(); err != nil {
		return err
	}
	defer c.calls.Add(-1)
	if err := c.takePlace(); err != nil {
		return err
	}
	lost := false
	req, release, err := c.openResponses(r.body, func(id string) (*perigee.StoredResponse, error) {
		if kept := s.recent.find(s, id); kept != nil {
			return kept, nil
		}
		kept, err := c.findResponse(id)
		lost = lost || err != nil
		return kept, err
	}, r.notes)
	if err != nil {
		if e := perigee.AsError(err); lost && e.Class == perigee.ClassNotFound {
			found := *e
			found.Class = perigee.ClassInvalid // which is the status that clients look for before they send everything again
			err = &found
		}
		return err
	}
	defer release()
	req.Stream = true
	settle(r.body)
	into := req.NewStream(c.id, c.start, c.opts.Now)
	stored := false
	into.Keep = func() bool {
		stored = c.keep(req, into.Stored)
		return stored
	}
	encoder := &socketStream{into, func() {
		if !stored {
			_, output := into.Stored()
			s.recent.put(s, r.stream, &perigee.StoredResponse{ID: openai.ResponseID(c.id), Input: req.InputItems(c.id), Output: output})
		}
	}}
	if r.warm {
		err = c.warmUp(req, encoder)
	} else {
		err = c.stream(req.Request, encoder)
	}
	releaseBody(r.body) // what is kept of the request is a copy
	return err
}

// warmUp answers a request that nothing is to be made for: it can be gone on from, and that is all. No model is asked.
func (c *call) warmUp(req *openai.Responses, enc streamEncoder) error {
	c.w.Header().Set("Content-Type", enc.ContentType())
	c.note(req.Notes)
	c.wrote = true
	_, _ = c.w.Write(enc.End(nil)) // a client that is gone cannot be told
	return nil
}

// A socketStream remembers the answer before the client is told that it is complete. It gives no signs of life: the
// socket does, for all its streams.
type socketStream struct {
	*openai.ResponsesStream
	remember func()
}

func (s *socketStream) End(dst []byte) []byte {
	dst = s.ResponsesStream.End(dst)
	if !bytes.Contains(dst, failedEvent) { // else it is gone on from the one before
		s.remember()
	}
	return dst
}

// failedEvent is how the end of an answer begins that is none. Nothing that a model says has an end of line in it.
var failedEvent = []byte("event: response.failed\n")

func (s *socketStream) Idle(dst []byte) []byte { return dst }

// A socketWriter puts an answer on a socket that was made for HTTP, so that an answer is made in one way however it
// travels: each event of the stream becomes a message, and an error the event that tells it.
type socketWriter struct {
	socket   *socket
	stream   string
	header   http.Header
	status   int
	body     []byte // of an answer that is no stream
	deadline time.Time
	buf      []byte
}

func (w *socketWriter) Header() http.Header                  { return w.header }
func (w *socketWriter) WriteHeader(status int)               { w.status = status }
func (w *socketWriter) FlushError() error                    { return nil }
func (w *socketWriter) SetWriteDeadline(end time.Time) error { w.deadline = end; return nil }

func (w *socketWriter) Write(p []byte) (int, error) {
	if w.deadline.IsZero() {
		w.deadline = time.Now().Add(writeLimit)
	}
	if w.status >= http.StatusBadRequest {
		w.body = append(w.body, p...)
		if w.header.Get("Content-Length") != strconv.Itoa(len(w.body)) {
			return len(p), nil
		}
		return len(p), w.socket.send(encodeSocketError(w.status, w.header, w.body, w.stream), w.deadline)
	}
	for rest := p; len(rest) > 0; {
		event, after, _ := bytes.Cut(rest, []byte("\n\n"))
		rest = after
		_, data, _ := bytes.Cut(event, []byte("\ndata: "))
		if err := w.socket.send(w.named(data), w.deadline); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// named adds the stream's name to an event.
func (w *socketWriter) named(event []byte) []byte {
	if w.stream == "" {
		return event
	}
	w.buf = append(w.buf[:0], event[:len(event)-1]...)
	w.buf = append(append(append(w.buf, `,"stream_id":"`...), w.stream...), `"}`...) // it has no letters to escape
	return w.buf
}
