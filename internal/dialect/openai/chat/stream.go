package chat

import (
	"slices"

	"perigee"
	"perigee/internal/dialect"
	"perigee/internal/dialect/openai"
	"perigee/internal/lib/rawjson"
	"perigee/internal/lib/sse"
)

// A Stream puts an answer on the wire as chat.completion.chunk objects. The last
// chunk of a choice is held back until all content is sent, because usage and sources may follow
// the finish reason of the provider. The chunks of a provider that speaks this API pass unchanged.
type Stream struct {
	progress
	frames dialect.Frames
}

// NewStream returns the encoder for one answer.
func NewStream(answer Answer) *Stream {
	return &Stream{progress: newProgress(answer), frames: dialect.Frames{Dialect: perigee.DialectOpenAIChat}}
}

// ContentType returns the Content-Type of the answer.
func (s *Stream) ContentType() string { return "text/event-stream" }

// Encode appends the output for an event, which may be empty.
func (s *Stream) Encode(dst []byte, ev *perigee.Event) []byte {
	dst, done := s.frames.Encode(dst, ev)
	if done {
		return dst
	}
	c, add, ok := s.take(ev)
	if !ok || !s.shows(c, &add) {
		return dst
	}
	w := rawjson.Writer{Buf: dst}
	if c.head == "" { // nothing was sent of it
		s.role(&w, c)
	}
	s.delta(&w, c, &add)
	return w.Buf
}

// open begins a chunk, up to the members of the delta.
func (s *Stream) open(w *rawjson.Writer, c *choice) *rawjson.Writer {
	if c.head == "" {
		s.started = true
		c.head = string(s.begin(&rawjson.Writer{}).Object().Key("index").Int(int64(c.index)).Key("delta").Object().Buf)
	}
	return w.Lit(c.head)
}

// begin begins a chunk, up to its choices.
func (s *Stream) begin(w *rawjson.Writer) *rawjson.Writer {
	return s.answer.head(w.Lit("data: "), "chat.completion.chunk").Key("choices").Array()
}

// close ends a chunk after the members of the delta.
func (s *Stream) close(w *rawjson.Writer) {
	const rest = `},"logprobs":null,"finish_reason":null}]`
	if s.answer.Style.Usage {
		w.Lit(rest + `,"usage":null}` + "\n\n")
	} else {
		w.Lit(rest + "}\n\n")
	}
}

// end ends a chunk after its choices.
func (s *Stream) end(w *rawjson.Writer) {
	if s.answer.Style.Usage {
		w.Members(`"usage":null`)
	}
	w.Lit("}\n\n")
}

func (s *Stream) role(w *rawjson.Writer, c *choice) {
	s.close(s.open(w, c).Members(`"role":"assistant","content":""`))
}

// delta writes the chunk for one piece of content.
func (s *Stream) delta(w *rawjson.Writer, c *choice, add *content) {
	s.open(w, c)
	switch {
	case add.logprobs != nil:
		w.EndObject().Key("logprobs").Object().Key("content").Array()
		openai.WriteLogprobs(w, add.logprobs)
		s.end(w.Lit(`],"refusal":null},"finish_reason":null}]`))
		return
	case add.call != nil && (add.piece || c.open.begun):
		s.callPiece(w, c, add)
	case add.call != nil:
		s.call(w, c, toolCall{add.call, add.signature})
	case add.signature != "": // it came after its call
		w.Key("tool_calls").Array().Object().Key("index").Int(int64(max(c.callCount-1, 0)))
		writeSignatures(w, signatures{text: add.signature})
		w.EndObject().EndArray()
	case add.reasoning != "":
		w.Key("reasoning_content").String(add.reasoning)
	case add.image != nil:
		w.Key("images").Array()
		writeImage(w, add.image, c.images)
		w.EndArray()
		c.images++
	case add.text != "":
		if s.answer.Style.Cite {
			c.text.Add(add.text)
		}
		w.Lit(`"content":`).String(add.text)
	}
	if add.signed {
		writeSignatures(w, c.signatures)
	}
	s.close(w)
}

// shows reports whether the client gets a chunk for an addition, and sets the text of the pieces of a
// call. The end of a call that was written in pieces adds a chunk only if it has a signature, or
// arguments that were not in the pieces.
func (s *Stream) shows(c *choice, add *content) bool {
	custom := add.call != nil && slices.Contains(s.answer.Style.Custom, add.call.Name)
	switch {
	case add.piece && custom:
		add.text = c.open.input.Add(add.text)
		return add.text != "" || !c.open.begun
	case add.call != nil && !add.piece && c.open.begun:
		if add.text = c.open.rest(add.call, custom); add.text == "" && add.signature == "" {
			c.open = openCall{}
			return false
		}
	}
	return true
}

// isFunction reports whether the last call is the function_call that a request with functions
// expects. Only one fits there.
func (s *Stream) isFunction(c *choice) bool { return s.answer.Style.Functions && c.callCount == 1 }

// call writes a call, whole.
func (s *Stream) call(w *rawjson.Writer, c *choice, call toolCall) {
	c.callCount++
	if s.isFunction(c) {
		w.Key("function_call")
		writeFunctionCall(w, call.FunctionCall)
		return
	}
	w.Key("tool_calls").Array()
	s.answer.Style.writeCall(w, call, c.callCount-1)
	w.EndArray()
}

// callPiece writes a piece of a call, or its end.
func (s *Stream) callPiece(w *rawjson.Writer, c *choice, add *content) {
	first := !c.open.begun
	if first {
		c.callCount++
		c.open.begun = true
	}
	c.open.sent += len(add.text)
	kind, member := "function", "arguments"
	if slices.Contains(s.answer.Style.Custom, add.call.Name) {
		kind, member = "custom", "input"
	}
	function := s.isFunction(c)
	if function {
		w.Key("function_call").Object()
	} else {
		w.Key("tool_calls").Array().Object().Key("index").Int(int64(c.callCount - 1))
		if first {
			w.Key("id").String(add.call.ID).Key("type").String(kind)
		}
		w.Key(kind).Object()
	}
	if first {
		w.Key("name").String(add.call.Name)
	}
	w.Key(member).String(add.text).EndObject()
	if !function {
		writeSignatures(w, signatures{text: add.signature})
		w.EndObject().EndArray()
	}
	if !add.piece {
		c.open = openCall{}
	}
}

// End appends the ends of all choices, the usage if it was asked for, and the mark behind the last
// event.
func (s *Stream) End(dst []byte) []byte {
	if s.frames.Framed() {
		return dst
	}
	w := &rawjson.Writer{Buf: dst}
	for _, c := range s.all() {
		reason := s.answer.Style.finishReason(c)
		if !c.hasContent {
			s.role(w, c)
		}
		if refusal := c.refusal(); refusal != "" {
			s.close(s.open(w, c).Key("refusal").String(refusal))
		}
		if list := c.citations(); len(list) > 0 {
			s.open(w, c)
			writeAnnotations(w, list)
			s.close(w)
		}
		s.open(w, c).EndObject().Members(`"logprobs":null`).Key("finish_reason").String(reason).EndObject().EndArray()
		s.end(w)
	}
	if s.answer.Style.Usage {
		writeUsage(s.begin(w).EndArray(), s.usage)
		w.Lit("}\n\n")
	}
	return w.Lit("data: [DONE]\n\n").Buf
}

// Fail appends an error. There is no [DONE] after it, because the answer is incomplete.
func (s *Stream) Fail(dst []byte, status int, err *perigee.Error) []byte {
	dst, done := s.frames.Fail(dst, err)
	if done {
		return dst
	}
	return sse.AppendEvent(dst, openai.EncodeStreamError(status, err), false)
}

// Idle appends a comment, which clients skip.
func (s *Stream) Idle(dst []byte) []byte { return append(dst, sse.KeepAlive...) }
