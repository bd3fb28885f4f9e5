package chat

import (
	"strconv"

	"perigee"
	"perigee/internal/dialect/openai"
	"perigee/internal/rawjson"
	"perigee/internal/sse"
)

// A Stream puts an answer on the wire as chat.completion.chunk objects. What ends a choice is held back until
// all content is out, because usage and sources may follow the provider's reason to stop.
type Stream struct {
	answer  Answer
	head    []byte // of each chunk, once the model is known
	choices choices
	usage   perigee.Usage
}

// NewStream returns the encoder for one answer.
func NewStream(answer Answer) *Stream { return &Stream{answer: answer} }

// ContentType is what the answer says it is.
func (s *Stream) ContentType() string { return "text/event-stream" }

// Encode appends what an event adds to the answer, which may be nothing.
func (s *Stream) Encode(dst []byte, ev *perigee.Event) []byte {
	switch ev.Kind {
	case perigee.EventFrame, perigee.EventNote:
		return dst
	case perigee.EventStart:
		if ev.Model != "" && s.head == nil {
			s.answer.Model = ev.Model
		}
		return dst
	case perigee.EventUsage:
		if ev.Usage != nil {
			s.usage = *ev.Usage
		}
		return dst
	}
	c := s.choices.at(ev.Candidate)
	switch ev.Kind {
	case perigee.EventGrounding:
		c.trail.Add(ev.Grounding)
		return dst
	case perigee.EventFinish:
		if ev.Finish != nil {
			c.finish = *ev.Finish
			s.answer.missed(c)
		}
		return dst
	}
	first := !c.begun
	add, ok := c.take(ev)
	if !ok {
		return dst
	}
	if first && c.begun {
		dst = s.role(dst, c)
	}
	return s.delta(dst, c, &add)
}

// open begins a chunk, up to the members of the delta.
func (s *Stream) open(dst []byte, c *choice) []byte {
	dst = s.prefix(dst)
	dst = append(dst, `[{"index":`...)
	dst = strconv.AppendInt(dst, int64(c.index), 10)
	return append(dst, `,"delta":{`...)
}

func (s *Stream) prefix(dst []byte) []byte {
	if s.head == nil {
		s.head = append(s.answer.appendHead([]byte("data: "), "chat.completion.chunk"), `,"choices":`...)
	}
	return append(dst, s.head...)
}

// close ends a chunk after the members of the delta.
func (s *Stream) close(dst []byte) []byte {
	return s.end(append(dst, `},"logprobs":null,"finish_reason":null}]`...))
}

func (s *Stream) end(dst []byte) []byte {
	if s.answer.Style.Usage {
		dst = append(dst, `,"usage":null`...)
	}
	return append(dst, "}\n\n"...)
}

func (s *Stream) role(dst []byte, c *choice) []byte {
	return s.close(append(s.open(dst, c), `"role":"assistant","content":""`...))
}

// delta writes the chunk for one piece of content.
func (s *Stream) delta(dst []byte, c *choice, add *content) []byte {
	if add.logprobs != nil {
		dst = append(s.open(dst, c), `},"logprobs":{"content":[`...)
		dst = openai.AppendLogprobs(dst, add.logprobs)
		return s.end(append(dst, `],"refusal":null},"finish_reason":null}]`...))
	}
	dst = s.open(dst, c)
	body := len(dst)
	switch {
	case add.call != nil:
		dst = s.call(dst, c, toolCall{add.call, add.signature})
	case add.signature != "": // a seal that came after its call
		dst = append(dst, `"tool_calls":[{"index":`...)
		dst = strconv.AppendInt(dst, int64(max(c.callCount-1, 0)), 10)
		dst = append(dst, ',')
		dst = append(appendSeals(dst, seals{text: add.signature}), "}]"...)
	case add.reasoning != "":
		dst = append(dst, `"reasoning_content":`...)
		dst = rawjson.AppendString(dst, add.reasoning)
	case add.image != nil:
		dst = append(dst, `"images":[`...)
		dst = append(appendImage(dst, add.image, c.images), ']')
		c.images++
	case add.text != "":
		if s.answer.Style.Cite {
			c.text.Add(add.text)
		}
		dst = append(dst, `"content":`...)
		dst = rawjson.AppendString(dst, add.text)
	}
	if add.seals {
		if len(dst) > body {
			dst = append(dst, ',')
		}
		dst = appendSeals(dst, c.seals)
	}
	return s.close(dst)
}

// call writes a call, whole. Who asked with functions expects one function_call; more than one does not fit there.
func (s *Stream) call(dst []byte, c *choice, call toolCall) []byte {
	c.callCount++
	if s.answer.Style.Functions && c.callCount == 1 {
		return appendFunctionCall(append(dst, `"function_call":`...), call.FunctionCall)
	}
	dst = append(dst, `"tool_calls":[`...)
	return append(s.answer.Style.appendCall(dst, call, c.callCount-1), ']')
}

// End appends the ends of all choices, the usage if it was asked for, and the mark behind the last event.
func (s *Stream) End(dst []byte) []byte {
	if len(s.choices) == 0 {
		s.choices.at(0)
	}
	for _, c := range s.choices {
		reason := s.answer.Style.finishReason(c)
		if !c.begun {
			dst = s.role(dst, c)
		}
		if refusal := c.refusal(); refusal != "" {
			dst = append(s.open(dst, c), `"refusal":`...)
			dst = s.close(rawjson.AppendString(dst, refusal))
		}
		if list := c.citations(); len(list) > 0 {
			dst = append(s.open(dst, c), `"annotations":`...)
			dst = s.close(appendAnnotations(dst, list))
		}
		dst = append(s.open(dst, c), `},"logprobs":null,"finish_reason":"`...)
		dst = s.end(append(append(dst, reason...), `"}]`...))
	}
	if s.answer.Style.Usage {
		dst = append(s.prefix(dst), `[],"usage":`...)
		dst = append(appendUsage(dst, s.usage), "}\n\n"...)
	}
	return append(dst, "data: [DONE]\n\n"...)
}

// Fail appends an error. There is no [DONE] after it: the answer is not done.
func (s *Stream) Fail(dst []byte, status int, err *perigee.Error) []byte {
	return sse.AppendEvent(dst, "", openai.EncodeError(status, err), false)
}

// Idle appends a comment, which clients skip.
func (s *Stream) Idle(dst []byte) []byte { return sse.AppendComment(dst, "keep-alive", false) }
