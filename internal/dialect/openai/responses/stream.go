package openai

import (
	"encoding/json"
	"slices"
	"time"

	"perigee"
	"perigee/internal/sse"
)

// A ResponsesStream puts one answer on the wire as the events of the Responses API. It keeps the whole answer along
// the way, because the API repeats every text when it is done, and the response at the end.
type ResponsesStream struct {
	// Keep stores the answer, as Stored returns it, when the client wants that. It is called before the client is told that the
	// answer is complete, so that it can be gone on from at once; if it returns false, the client is told that it is not stored.
	Keep func() bool

	req    *Responses
	call   string
	now    func() time.Time
	quiet  bool // nobody listens: only the whole is wanted
	answer responsesAnswer

	w       responsesWriter
	number  int64 // of the next event
	started bool

	output []byte // the finished items as the client sees them, with commas
	kept   []byte // the same as the next turn needs them, where that is different
	items  int    // in output
	final  json.RawMessage

	open     responsesOpen
	id       string // of the open item
	text     []byte // of the open part, escaped
	plain    []byte // the same, not escaped, where sources may refer to it
	logprobs []byte
	thought  []byte // the stretch of thinking that goes on, not escaped
	parts    []byte // finished parts of the open item
	count    int64  // of parts
	carrier  responsesCarrier

	grounding json.RawMessage
	calls     int
	finish    *perigee.Finish
}

// A responsesOpen says what kind of item is being written.
type responsesOpen uint8

const (
	responsesNothing responsesOpen = iota
	responsesMessage
	responsesReasoning
)

// NewStream returns the encoder for the answer to a call that began at a time.
func (r *Responses) NewStream(call string, created time.Time, now func() time.Time) *ResponsesStream {
	return &ResponsesStream{req: r, call: call, now: now, answer: responsesAnswer{
		id: ResponseID(call), created: created, status: responsesInProgress, model: r.Model,
	}}
}

// ContentType is what the answer says it is.
func (s *ResponsesStream) ContentType() string { return "text/event-stream; charset=utf-8" }

// Encode appends what an event adds to the answer, which may be nothing.
func (s *ResponsesStream) Encode(dst []byte, ev *perigee.Event) []byte {
	if ev.Candidate != 0 {
		return dst // this API has one answer
	}
	s.w.buf = dst
	switch ev.Kind {
	case perigee.EventStart:
		if ev.Model != "" {
			s.answer.model = ev.Model
		}
		s.start()
	case perigee.EventText:
		s.start()
		s.addText(ev.Text)
	case perigee.EventThinking:
		s.start()
		s.addThinking(ev.Text, ev.Signature)
	case perigee.EventSignature:
		s.seal(ev.Signature)
	case perigee.EventCall:
		s.start()
		s.addCall(ev.Call, ev.Signature)
	case perigee.EventBlob:
		s.start()
		s.addBlob(ev)
	case perigee.EventPart:
		s.start()
		s.addText(codeText(ev.Raw))
	case perigee.EventGrounding:
		s.grounding = ev.Raw
	case perigee.EventLogprobs:
		s.addLogprobs(ev.Raw)
	case perigee.EventUsage:
		s.answer.usage = ev.Usage
	case perigee.EventFinish:
		s.finish = ev.Finish
	}
	return s.release()
}

// release gives the buffer back to the caller.
func (s *ResponsesStream) release() []byte {
	dst := s.w.buf
	s.w.buf = nil
	return dst
}

// start opens the answer, once.
func (s *ResponsesStream) start() {
	if s.started {
		return
	}
	s.started = true
	if s.quiet {
		return
	}
	s.w.buf = slices.Grow(s.w.buf, 2*s.req.objectSize(nil)) // both events say the same, and both are sent at once
	s.event("response.created")
	s.w.lit(`,"response":`)
	from := len(s.w.buf)
	s.req.object(&s.w, &s.answer, nil)
	response := s.w.buf[from:]
	s.send()
	s.event("response.in_progress")
	s.w.lit(`,"response":`)
	s.w.raw(response)
	s.send()
}

// event begins an event, unless nobody listens.
func (s *ResponsesStream) event(name string) bool {
	if s.quiet {
		return false
	}
	s.w.lit("event: ")
	s.w.lit(name)
	s.w.lit("\ndata: {\"type\":\"")
	s.w.lit(name)
	s.w.lit(`","sequence_number":`)
	s.w.int(s.number)
	s.number++
	return true
}

// send ends the event.
func (s *ResponsesStream) send() { s.w.lit("}\n\n") }

// End appends what closes the answer.
func (s *ResponsesStream) End(dst []byte) []byte {
	s.w.buf = dst
	s.start()
	s.answer.finish(s.finish, s.calls, s.items)
	s.closeItem()
	s.addSearch()
	s.conclude()
	return s.release()
}

// Fail appends an error and closes the answer: as the error of the stream, for clients that read it as one, and as
// the failure of the response, for those that follow the response.
func (s *ResponsesStream) Fail(dst []byte, _ int, err *perigee.Error) []byte {
	s.w.buf = dst
	s.start()
	code := responsesErrorCode(err.Class)
	if s.event("error") {
		s.w.lit(`,"code":`)
		s.w.str(code)
		s.w.lit(`,"message":`)
		s.w.str(err.Error())
		s.w.lit(`,"param":null`)
		s.send()
	}
	s.answer.status = responsesFailed
	if err.Class == perigee.ClassCanceled {
		s.answer.status = responsesCancelled
	} else {
		s.answer.errorCode, s.answer.errorText = code, err.Error()
	}
	s.conclude()
	return s.release()
}

// conclude writes the response as it came to be.
func (s *ResponsesStream) conclude() {
	if s.answer.status == responsesCompleted && s.now != nil {
		s.answer.completed = s.now()
	}
	if s.quiet {
		if s.final = s.object(); !s.store() {
			s.final = s.object()
		}
		return
	}
	name := "response." + string(s.answer.status)
	if s.answer.status == responsesCancelled {
		name = "response.failed" // there is no event of that name
	}
	s.event(name)
	s.w.lit(`,"response":`)
	from := len(s.w.buf)
	s.req.object(&s.w, &s.answer, s.output)
	if s.req.Store {
		s.final = append(json.RawMessage(nil), s.w.buf[from:]...)
	}
	if !s.store() {
		s.w.buf = s.w.buf[:from]
		s.req.object(&s.w, &s.answer, s.output)
	}
	s.send()
}

// store keeps the answer if it is to be kept. False: it says that it is, which is not true.
func (s *ResponsesStream) store() bool {
	s.answer.lost = s.req.Store && s.Keep != nil && !s.Keep()
	return !s.answer.lost
}

func (s *ResponsesStream) object() json.RawMessage {
	var w responsesWriter
	s.req.object(&w, &s.answer, s.output)
	return w.buf
}

// Idle appends a sign of life that means nothing.
func (s *ResponsesStream) Idle(dst []byte) []byte { return sse.AppendComment(dst, "keep-alive", false) }

// Stored returns the answer to be kept: as the client got it, and its items as the next turn needs them. It is
// complete after End or Fail.
func (s *ResponsesStream) Stored() (response, output json.RawMessage) {
	items := s.output
	if s.keepsApart() {
		items = s.kept
	}
	output = append(append(json.RawMessage("["), items...), ']')
	return s.final, output
}

// keepsApart says whether the next turn needs seals that the client does not want.
func (s *ResponsesStream) keepsApart() bool { return s.req.Store && !s.req.showSeals }

// A ResponsesCollector makes one whole response out of a stream of events.
type ResponsesCollector struct{ ResponsesStream }

// NewCollector returns the collector for the answer to a call that began at a time.
func (r *Responses) NewCollector(call string, created time.Time, now func() time.Time) *ResponsesCollector {
	c := &ResponsesCollector{*r.NewStream(call, created, now)}
	c.quiet = true
	return c
}

// Add takes the next event.
func (c *ResponsesCollector) Add(ev *perigee.Event) { c.Encode(nil, ev) }

// Bytes returns the whole response.
func (c *ResponsesCollector) Bytes() []byte {
	if c.final == nil {
		c.End(nil)
	}
	return c.final
}

// Waiting returns the response as it is before anything has happened: what the client is told at once, and what it
// finds when it asks again.
func (c *ResponsesCollector) Waiting() (queued, begun json.RawMessage) {
	before := c.answer
	var w responsesWriter
	c.req.object(&w, &before, nil)
	begun = w.buf
	before.status = responsesQueued
	w = responsesWriter{}
	c.req.object(&w, &before, nil)
	return w.buf, begun
}
