package responses

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"perigee"
	"perigee/internal/dialect"
	"perigee/internal/dialect/openai"
	"perigee/internal/lib/rawjson"
)

// A Stream puts one answer on the wire as the events of the Responses API. It keeps the whole
// answer along the way, because the API repeats every text when it is done, and the response at the
// end. The events of a provider that speaks this API pass unchanged to clients over HTTP, and are
// not kept.
type Stream struct {
	// Keep stores the answer, as Stored returns it, if the client requests that. It is called
	// before the final event, so that the client can continue the answer at once. If it returns
	// false, the final event reports that the answer is not stored.
	Keep func() bool

	req    *Request
	call   string
	now    func() time.Time
	quiet  bool // no events are written: only the whole response is wanted
	answer answer

	w       rawjson.Writer
	flush   func(buf []byte) []byte // if nil, output stays with the caller until the method returns
	frames  framing
	own     dialect.Frames
	number  int64 // of the next event
	skip    int64 // events with smaller numbers are not written: the client has them
	started bool

	output   itemList // the finished items as the client sees them
	nextTurn itemList // the items as the next turn needs them, if keepsApart
	items    int      // in output
	final    json.RawMessage

	open     openItem
	id       string          // of the open item
	text     rope            // of the open part, escaped
	plain    strings.Builder // the same, not escaped, where sources may refer to it
	logprobs rawjson.Writer  // the elements of logprobs
	thought  rope            // the open section of thinking, not escaped
	parts    rope            // finished parts of the open item
	count    int64           // of parts
	carrier  carrier

	hasText     bool // there was text
	hasLogprobs bool // there were probabilities
	trail       dialect.Searches
	calls       int
	sent        int // bytes of the arguments of the open call, or of its input
	input       openai.InputPieces
	finish      *perigee.Finish

	answering bool // there is more than reasoning and searches
}

// An itemList is the finished items of an answer, with commas: the items before the answer itself,
// and the items from there on. Searches that the provider reports later are inserted between them.
type itemList struct{ before, answer rope }

// add appends an item, after the beginning of the answer if answering is true. The item must not
// change after that.
func (l *itemList) add(item *rope, answering bool) {
	if answering {
		l.answer.item(item)
	} else {
		l.before.item(item)
	}
}

// all is the whole list.
func (l *itemList) all() *rope {
	var all rope
	all.item(&l.before)
	all.item(&l.answer)
	return &all
}

// An openItem is the kind of item that is being written.
type openItem uint8

const (
	noItem openItem = iota
	messageItem
	reasoningItem
	callItem
)

// NewStream returns the encoder for the answer to a call that began at a time.
func (r *Request) NewStream(call string, created time.Time, now func() time.Time) *Stream {
	return &Stream{req: r, call: call, now: now, own: dialect.Frames{Dialect: perigee.DialectOpenAIResponses}, answer: answer{
		id: ID(call), created: created, status: statusInProgress, model: r.Model,
	}}
}

// NewMessages is NewStream for a client on a WebSocket: its output is a sequence of messages, to be
// split with CutMessage. They belong to the stream of that name, if it has one.
func (r *Request) NewMessages(call string, created time.Time, now func() time.Time, stream string) *Stream {
	s := r.NewStream(call, created, now)
	s.frames, s.own = framing{messages: true, stream: stream}, dialect.Frames{}
	return s
}

// SetFlush sets a function that sends long events in pieces while they are appended, so that they
// need no memory of their own. f gets the output so far, and returns the buffer to append to next,
// which may be the same. Nil disables it.
func (s *Stream) SetFlush(f func(buf []byte) []byte) {
	s.flush = f
	if !s.frames.messages { // which are only flushed whole
		s.w.Flush = f
	}
}

// ContentType returns the Content-Type of the answer.
func (s *Stream) ContentType() string { return "text/event-stream; charset=utf-8" }

// Encode appends the output for an event, which may be empty.
func (s *Stream) Encode(dst []byte, ev *perigee.Event) []byte {
	dst, done := s.own.Encode(dst, ev)
	if done && ev.Kind == perigee.EventStart {
		s.req.forget()
		if s.req.Elsewhere != nil {
			s.req.Elsewhere(ev)
		}
	}
	if s.own.Framed() && bytes.Contains(ev.Frame, []byte("data:")) {
		s.number++ // the provider's own numbers begin with 0, too
	}
	if done || ev.Candidate != 0 { // this API has one answer
		return dst
	}
	s.w.Buf = dst
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
		s.sign(ev.Signature)
	case perigee.EventCallPart:
		s.start()
		s.addCallPiece(ev.Call, ev.Text)
	case perigee.EventCall:
		s.start()
		s.addCall(ev.Call, ev.Signature)
	case perigee.EventBlob:
		s.start()
		s.addBlob(ev)
	case perigee.EventPart:
		s.start()
		s.addText(openai.CodeText(ev.Raw))
	case perigee.EventGrounding:
		s.trail.Add(ev.Grounding)
		if !s.answering { // the model has searched first; else it goes out when the text is
			s.start()
			s.addSearches()
		}
	case perigee.EventLogprobs:
		s.addLogprobs(ev.Logprobs)
	case perigee.EventUsage:
		s.answer.usage = ev.Usage
	case perigee.EventFinish:
		s.finish = ev.Finish
		if s.req.logprobs && s.hasText && !s.hasLogprobs { // some models send none
			s.req.Log.NoteOnce(openai.NoLogprobs)
			s.hasLogprobs = true // the note is added once
		}
	}
	return s.release()
}

// release returns the buffer, which belongs to the caller.
func (s *Stream) release() []byte {
	dst := s.w.Buf
	s.w.Buf = nil
	return dst
}

// start opens the answer, once.
func (s *Stream) start() {
	if s.started {
		return
	}
	s.started = true
	if s.quiet {
		return
	}
	if s.w.Flush == nil {
		s.w.Buf = slices.Grow(s.w.Buf, 2*s.req.objectSize(nil)) // both events have the same object
	}
	for _, name := range []string{"response.created", "response.in_progress"} {
		s.emit(name, func(w *rawjson.Writer) { s.req.object(w.Key("response"), &s.answer, nil) })
	}
}

// emit sends an event with the members that write writes, unless the stream is quiet or the client
// has it.
func (s *Stream) emit(name string, write func(w *rawjson.Writer)) {
	if s.quiet {
		return
	}
	number := s.number
	if s.number++; number < s.skip {
		return
	}
	from := len(s.w.Buf)
	s.w.Buf = s.frames.begin(s.w.Buf, name)
	write(s.w.Lit(`{"type":"`).Lit(name).Lit(`","sequence_number":`).Int(number))
	s.w.Buf = s.frames.end(s.w.EndObject().Buf, from)
	if s.flush != nil && len(s.w.Buf) >= rawjson.FlushSize {
		s.w.Buf = s.flush(s.w.Buf)
	}
}

// End appends the end of the answer.
func (s *Stream) End(dst []byte) []byte {
	if s.own.Framed() {
		return dst
	}
	s.w.Buf = dst
	s.start()
	s.answer.finish(s.finish, s.calls, s.items)
	s.closeItem()
	if s.answer.incomplete == contentFilter && !s.answering || openai.IsExplained(s.finish) {
		s.addRefusal(openai.Withheld(s.finish))
	}
	if s.quiet {
		s.searchesFirst()
	} else {
		s.addSearches()
	}
	s.conclude()
	return s.release()
}

// Fail appends an error and closes the answer: as the error of the stream, for clients that read it
// as one, and as the failure of the response, for those that follow the response. After the events
// of a provider there is only the former.
func (s *Stream) Fail(dst []byte, _ int, err *perigee.Error) []byte {
	dst, done := s.own.Fail(dst, err)
	if done {
		return dst
	}
	s.w.Buf = dst
	if s.own.Framed() {
		s.streamError(err)
		return s.release()
	}
	s.start()
	s.streamError(err)
	s.answer.status = statusFailed
	if err.Class == perigee.ClassCanceled {
		s.answer.status = statusCancelled
	} else {
		s.answer.errorCode, s.answer.errorClass, s.answer.errorText = failureCode(err), err.Class, err.Error()
	}
	s.closeCut()
	s.conclude()
	return s.release()
}

// streamError appends an error event of the stream.
func (s *Stream) streamError(err *perigee.Error) {
	s.emit("error", func(w *rawjson.Writer) {
		w.Key("code").String(failureCode(err)).Key("class").String(string(err.Class)).Key("message").String(err.Error()).Members(`"param":null`)
	})
}

// closeCut ends the item that was open when the answer was cut off. The response includes the part
// that was sent; no event marks the item as done, because agents would treat it as complete.
func (s *Stream) closeCut() {
	quiet := s.quiet
	s.quiet = true
	s.closeItem()
	s.quiet = quiet
}

// conclude writes the final response.
func (s *Stream) conclude() {
	if s.answer.status == statusCompleted && s.now != nil {
		s.answer.completed = s.now()
	}
	output := s.output.all()
	if s.quiet || s.req.Store {
		s.object(output)
		if !s.store() {
			s.object(output)
		}
	}
	s.emit(endEvent(s.answer.status), func(w *rawjson.Writer) {
		if w.Key("response"); s.final != nil {
			w.Raw(s.final)
		} else {
			s.req.object(w, &s.answer, output)
		}
	})
}

// endEvent is the event with which a response ends.
func endEvent(s status) string {
	if s == statusCancelled {
		return "response.failed" // the API has no event for it
	}
	return "response." + string(s)
}

// store stores the answer if requested. It returns false if the answer claims to be stored and is
// not.
func (s *Stream) store() bool {
	s.answer.lost = s.req.Store && s.Keep != nil && !s.Keep()
	return !s.answer.lost
}

// object makes the whole response.
func (s *Stream) object(output *rope) {
	var w rawjson.Writer
	s.req.object(&w, &s.answer, output)
	s.final = w.Buf
}

// Keeps reports whether the answer is kept.
func (s *Stream) Keeps() bool { return !s.own.Framed() }

// Idle appends a keep-alive.
func (s *Stream) Idle(dst []byte) []byte { return s.frames.idle(dst) }

// Failed reports, after End or Fail, whether the answer cannot be continued.
func (s *Stream) Failed() bool {
	return s.answer.status == statusFailed || s.answer.status == statusCancelled
}

// Stored returns the answer to be kept: as the client got it, and its items as the next turn needs
// them. It is complete after End or Fail.
func (s *Stream) Stored() (response, output json.RawMessage) {
	list := &s.output
	if s.keepsApart() {
		list = &s.nextTurn
	}
	items := list.all()
	w := rawjson.Writer{Buf: make([]byte, 0, items.size+2)}
	return s.final, w.Array().Elements(items.pieces...).EndArray().Buf
}

// keepsApart reports whether the next turn needs signatures that the client does not want.
func (s *Stream) keepsApart() bool { return s.req.Store && !s.req.showSignatures }

// A Collector makes one whole response out of a stream of events. If the provider sent a frame, that
// is the answer.
type Collector struct{ Stream }

// NewCollector returns the collector for the answer to a call that began at a time.
func (r *Request) NewCollector(call string, created time.Time, now func() time.Time) *Collector {
	c := &Collector{*r.NewStream(call, created, now)}
	c.quiet = true
	return c
}

// Add takes the next event.
func (c *Collector) Add(ev *perigee.Event) {
	if frame := c.Encode(nil, ev); c.own.Framed() && len(frame) > 0 {
		c.final = frame
	}
}

// Bytes returns the whole response.
func (c *Collector) Bytes() []byte {
	if c.final == nil {
		c.End(nil)
	}
	return c.final
}

// Waiting returns the response before any output: queued is the immediate answer, begun is for
// clients that poll.
func (c *Collector) Waiting() (queued, begun json.RawMessage) {
	waiting := c.answer
	var before, after rawjson.Writer
	c.req.object(&after, &waiting, nil)
	waiting.status = statusQueued
	c.req.object(&before, &waiting, nil)
	return before.Buf, after.Buf
}
