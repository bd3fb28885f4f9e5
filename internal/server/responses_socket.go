package server

import (
	"cmp"
	"net/http"

	"perigee"
	"perigee/internal/dialect/openai/responses"
	"perigee/internal/server/responsesapi"
)

// responsesSocket answers GET /v1/responses, with which a client asks for a WebSocket.
func (c *call) responsesSocket() error {
	if !responsesapi.HasToken(c.r.Header, "Upgrade", "websocket") || c.r.Method != http.MethodGet {
		c.w.Header().Set("Allow", http.MethodPost)
		e := perigee.Errorf(perigee.ClassInvalid, "responses cannot be listed").WithHint("use POST, or GET /v1/responses/{id}")
		e.Status = http.StatusMethodNotAllowed
		return e
	}
	if err := responsesapi.CheckHandshake(c.w, c.r); err != nil {
		return err
	}
	s, err := c.sockets.Open(responsesapi.Opening{Context: c.r.Context(), ID: c.id, Path: c.path, Source: c.source(),
		Trusted: c.trusted,
		Answer:  c.answerMessage, Reject: c.rejectMessage})
	if err != nil {
		return err
	}
	// A socket does not count as a call, only the requests on it do.
	c.endCall()
	defer c.beginCall()
	c.wrote = true
	s.Serve(c.w, c.r)
	return nil
}

// socketSettings are the settings for open sockets.
func (s *Server) socketSettings() responsesapi.Settings {
	limit, setting := s.maxBody()
	state := s.settings.Load()
	return responsesapi.Settings{MaxMessage: limit, MaxMessageFrom: setting, MaxWaiting: state.MaxBody, KeepAlive: state.KeepAlive}
}

// answerMessage answers a request on a socket that c has opened. It is a call of its own: the key
// is checked again, because it may have been removed meanwhile.
func (c *call) answerMessage(s *responsesapi.Socket, r *responses.Message) {
	c.beginCall()
	defer c.endCall()
	one := c.messageCall(s)
	defer one.end()
	defer one.surviveMessage(s, r.Stream)
	err := one.holdMessage(s, r.Body)
	if err == nil {
		err = one.answerSocket(s, r)
	}
	if err != nil {
		one.failMessage(s, r.Stream, err)
	}
}

// messageCall returns the call of a message on a socket that c has opened.
func (c *call) messageCall(s *responsesapi.Socket) *call {
	id := c.opts.NewID()
	return &call{Server: c.Server, state: c.settings.Load(), r: c.r.WithContext(s.Context()), id: id, start: c.opts.Now(),
		path: c.path, dialect: &responsesDialect, trusted: c.trusted, operation: perigee.OperationGenerate, keyChecked: true,
		w: s.Writer(http.Header{"X-Perigee-Call": {id}})}
}

// rejectMessage answers a message that is not a request with an error. Like a request with an
// invalid body, it counts as a request of the key.
func (c *call) rejectMessage(s *responsesapi.Socket, stream string, invalid error) {
	c.beginCall()
	defer c.endCall()
	one := c.messageCall(s)
	defer one.end()
	err := one.admitMessage()
	one.places.release()
	one.failMessage(s, stream, cmp.Or(err, invalid))
}

// admitMessage is admit for a message. It looks up the key again.
func (c *call) admitMessage() error {
	if err := c.authenticate(); err != nil {
		return err
	}
	return c.admit()
}

// holdMessage moves the message from the lease of the socket to the lease of the call, where it
// counts like any body.
func (c *call) holdMessage(s *responsesapi.Socket, message []byte) error {
	defer s.Release(len(message))
	if err := c.lease.Open(c.opts.Memory, c.trusted); err != nil {
		return err
	}
	return c.trackBytes(message)
}

// failMessage answers a message with an error.
func (c *call) failMessage(s *responsesapi.Socket, stream string, err error) {
	status, e := c.refusal(err)
	c.wrote = true
	c.tapAnswer(s.SendError(stream, status, e, c.w.Header()))
}

// surviveMessage ends the answer of a call that panicked. Where the answer had begun, the socket
// ends, too.
func (c *call) surviveMessage(s *responsesapi.Socket, stream string) {
	v := recover()
	if v == nil {
		return
	}
	err := c.panicked("panic behind a socket", v)
	if c.wrote {
		s.Abort()
		return
	}
	c.failMessage(s, stream, err)
}

// answerSocket takes a request past the guards that are not about the socket as a whole.
func (c *call) answerSocket(s *responsesapi.Socket, r *responses.Message) error {
	defer c.places.release()
	if err := c.admitMessage(); err != nil {
		return err
	}
	if err := c.acquire(); err != nil {
		return err
	}
	lost := false
	req, err := c.decodeResponse(c.origin(r.Body), func(id string) (*perigee.StoredResponse, error) {
		if kept := s.Find(id); kept != nil {
			return kept, c.recall(c.recalled + int64(len(kept.Input)+len(kept.Output)))
		}
		kept, err := c.findResponse(id)
		lost = lost || err != nil
		return kept, err
	})
	if err == nil {
		err = req.Translate() // the ids of answers on a socket are perigee's
	}
	if err == nil {
		req.Note(r.Notes...)
		x := &exchange{request: req.Request}
		err = c.check(x, false)
		req.Request = x.request
	}
	if err != nil {
		if e := perigee.AsError(err); lost && e.Class == perigee.ClassNotFound {
			found := *e
			// Clients look for its status before they send the whole conversation again.
			found.Class = perigee.ClassInvalid
			err = &found
		}
		return err
	}
	req.Stream = true
	req.Keep() // the input is remembered with the answer
	into := req.NewMessages(c.id, c.start, c.opts.Now, r.Stream)
	stored := false
	into.Keep = func() bool {
		stored = c.keep(req, into.Stored)
		return stored
	}
	encoder := &socketStream{into, func() {
		if !stored {
			_, output := into.Stored()
			s.Keep(r.Stream, &perigee.StoredResponse{ID: responses.ID(c.id), Input: req.InputItems(c.id), Output: output})
		}
	}}
	if r.Warm {
		err = c.warmUp(req, encoder)
	} else {
		err = c.stream(req.Request, encoder)
	}
	c.freeBody() // the remembered input is a copy
	return err
}

// warmUp answers a request with generate: false. The response is empty and can be continued; no
// model is called.
func (c *call) warmUp(req *responses.Request, enc streamEncoder) error {
	c.w.Header().Set("Content-Type", enc.ContentType())
	c.note(req.Log.Notes())
	c.wrote = true
	_, _ = c.w.Write(enc.End(nil)) // the client may be gone
	return nil
}

// A socketStream keeps the answer with its socket before the last event is sent.
type socketStream struct {
	*responses.Stream
	remember func()
}

func (s *socketStream) End(dst []byte) []byte {
	dst = s.Stream.End(dst)
	if !s.Failed() { // otherwise the next request continues the previous answer
		s.remember()
	}
	return dst
}
