package httpapi

import (
	"cmp"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/coder/websocket"

	"perigee"
	"perigee/internal/dialect/openai/responses"
)

// answer makes one answer. It is a call of its own: the key that the socket was opened with is looked at again, because
// it may have been taken away meanwhile.
func (s *socket) answer(r *responses.Message) {
	s.Server.enter()
	defer s.Server.leave()
	c := s.newCall()
	defer c.end()
	defer s.survive(c, r.Stream)
	err := c.holdMessage(s, r.Body)
	if err == nil {
		err = c.answerSocket(s, r)
	}
	if err != nil {
		s.fail(c, r.Stream, err)
	}
}

// newCall returns the call that answers one message.
func (s *socket) newCall() *call {
	shake := s.shake
	c := &call{Server: s.Server, state: s.settings.Load(), r: shake.r.WithContext(s.ctx), id: s.opts.NewID(), start: s.opts.Now(),
		path: shake.path, dialect: perigee.DialectOpenAIResponses, trusted: shake.trusted, asks: perigee.OperationGenerate, known: true}
	c.w = &socketWriter{socket: s, header: http.Header{"X-Perigee-Call": {c.id}}}
	return c
}

// reject answers a message that is no request with an error. Like a request with an invalid body, it counts as a request of the key.
func (s *socket) reject(stream string, invalid error) {
	s.Server.enter()
	defer s.Server.leave()
	c := s.newCall()
	defer c.end()
	err := c.admitMessage()
	c.places.release()
	s.fail(c, stream, cmp.Or(err, invalid))
}

// admitMessage is admit for a message, whose key is looked up anew.
func (c *call) admitMessage() error {
	if err := c.authenticate(); err != nil {
		return err
	}
	return c.admit()
}

// holdMessage moves the message from the lease of the socket to that of the call, where it counts like any body.
func (c *call) holdMessage(s *socket, message []byte) error {
	defer s.lease.Shrink(int64(len(message)))
	if err := c.lease.Open(c.opts.Memory, c.trusted); err != nil {
		return err
	}
	return c.hold(message)
}

// fail tells the client that there is no answer to what it has asked.
func (s *socket) fail(c *call, stream string, err error) {
	status, e := c.refusal(err)
	c.wrote = true
	s.tell(stream, status, e, c.w.Header())
}

// survive ends the answer of a call that panicked. Where it had begun, nobody knows what the client has got of it, so the
// socket ends, too.
func (s *socket) survive(c *call, stream string) {
	v := recover()
	if v == nil {
		return
	}
	c.opts.Logger.Error("panic behind a socket", "call", c.id, "panic", v, "stack", string(debug.Stack()))
	if c.wrote {
		_ = s.conn.Close(websocket.StatusInternalError, "internal error")
		return
	}
	s.fail(c, stream, perigee.Errorf(perigee.ClassInternal, "internal error").WithNext("the log has the details of call %s; please report it", c.id))
}

// answerSocket takes a request past the guards that are not about the socket as a whole.
func (c *call) answerSocket(s *socket, r *responses.Message) error {
	defer c.places.release()
	if err := c.admitMessage(); err != nil {
		return err
	}
	if err := c.takePlace(); err != nil {
		return err
	}
	lost := false
	req, err := c.openResponses(r.Body, func(id string) (*perigee.StoredResponse, error) {
		if kept := s.recent.find(s, id); kept != nil {
			return kept, c.recall(c.recalled + int64(len(kept.Input)+len(kept.Output)))
		}
		kept, err := c.findResponse(id)
		lost = lost || err != nil
		return kept, err
	}, r.Notes)
	if err != nil {
		if e := perigee.AsError(err); lost && e.Class == perigee.ClassNotFound {
			found := *e
			found.Class = perigee.ClassInvalid // which is the status that clients look for before they send everything again
			err = &found
		}
		return err
	}
	req.Stream = true
	req.Keep() // what was asked is remembered with the answer
	decodedBody(r.Body)
	c.keeps = true
	into := req.NewMessages(c.id, c.start, c.opts.Now, r.Stream)
	stored := false
	into.Keep = func() bool {
		stored = c.keep(req, into.Stored)
		return stored
	}
	encoder := &socketStream{into, func() {
		if !stored {
			_, output := into.Stored()
			s.recent.put(s, r.Stream, &perigee.StoredResponse{ID: responses.ID(c.id), Input: req.InputItems(c.id), Output: output})
		}
	}}
	if r.Warm {
		err = c.warmUp(req, encoder)
	} else {
		err = c.stream(req.Request, encoder)
	}
	c.freeBody() // what is kept of the request is a copy
	return err
}

// warmUp answers a request that nothing is to be made for: it can be gone on from, and that is all. No model is asked.
func (c *call) warmUp(req *responses.Request, enc streamEncoder) error {
	c.w.Header().Set("Content-Type", enc.ContentType())
	c.note(req.Notes)
	c.wrote = true
	_, _ = c.w.Write(enc.End(nil)) // a client that is gone cannot be told
	return nil
}

// A socketStream remembers the answer before the client is told that it is complete.
type socketStream struct {
	*responses.Stream
	remember func()
}

func (s *socketStream) End(dst []byte) []byte {
	dst = s.Stream.End(dst)
	if !s.Failed() { // else it is gone on from the one before
		s.remember()
	}
	return dst
}

// A socketWriter puts an answer on a socket that was made for HTTP, so that an answer is made in one way however it travels. What
// is written to it is messages.
type socketWriter struct {
	socket   *socket
	header   http.Header
	deadline time.Time
}

func (w *socketWriter) Header() http.Header                  { return w.header }
func (w *socketWriter) WriteHeader(int)                      {}
func (w *socketWriter) FlushError() error                    { return nil }
func (w *socketWriter) SetWriteDeadline(end time.Time) error { w.deadline = end; return nil }

func (w *socketWriter) Write(p []byte) (int, error) {
	if w.deadline.IsZero() {
		w.deadline = time.Now().Add(writeLimit)
	}
	for rest := p; len(rest) > 0; {
		var message []byte
		message, rest = responses.CutMessage(rest)
		if err := w.socket.send(message, w.deadline); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}
