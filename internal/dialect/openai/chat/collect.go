package chat

import (
	"strconv"

	"perigee"
	"perigee/internal/dialect/openai"
	"perigee/internal/rawjson"
)

// A Collector makes one chat.completion object out of a stream of events.
type Collector struct {
	answer  Answer
	choices choices
	usage   perigee.Usage
}

// NewCollector returns the collector for one answer.
func NewCollector(answer Answer) *Collector { return &Collector{answer: answer} }

// Add takes the next event.
func (w *Collector) Add(ev *perigee.Event) {
	switch ev.Kind {
	case perigee.EventFrame, perigee.EventNote:
		return
	case perigee.EventStart:
		if ev.Model != "" {
			w.answer.Model = ev.Model
		}
		return
	case perigee.EventUsage:
		if ev.Usage != nil {
			w.usage = *ev.Usage
		}
		return
	}
	c := w.choices.at(ev.Candidate)
	switch ev.Kind {
	case perigee.EventGrounding:
		c.trail.Add(ev.Grounding)
	case perigee.EventFinish:
		if ev.Finish != nil {
			c.finish = *ev.Finish
			w.answer.missed(c)
		}
	default:
		if add, ok := c.take(ev); ok {
			c.add(&add)
		}
	}
}

// add gathers what an event added.
func (c *choice) add(add *content) {
	c.text.Add(add.text)
	c.reasoning.Add(add.reasoning)
	switch {
	case add.call != nil:
		c.calls = append(c.calls, toolCall{add.call, add.signature})
		c.callCount++
	case add.signature != "" && len(c.calls) > 0: // a seal that came after its call
		c.calls[len(c.calls)-1].signature = add.signature
	case add.image != nil:
		if c.images > 0 {
			c.pictures = append(c.pictures, ',')
		}
		c.pictures = appendImage(c.pictures, add.image, c.images)
		c.images++
	case add.logprobs != nil:
		before := len(c.logprobs)
		if before > 0 {
			c.logprobs = append(c.logprobs, ',')
		}
		after := len(c.logprobs)
		if c.logprobs = openai.AppendLogprobs(c.logprobs, add.logprobs); len(c.logprobs) == after {
			c.logprobs = c.logprobs[:before]
		}
	}
}

// citations are the stretches of the text that rest on sources.
func (c *choice) citations() []openai.Citation {
	found := c.trail.All()
	if found == nil || len(found.Supports) == 0 {
		return openai.Citations("", found) // the text does not matter then
	}
	return openai.Citations(c.text.String(), found)
}

// Bytes returns the whole answer.
func (w *Collector) Bytes() []byte {
	if len(w.choices) == 0 {
		w.choices.at(0)
	}
	size := 1024
	for _, c := range w.choices {
		size += (c.text.Len()+c.reasoning.Len())*17/16 + len(c.pictures) + len(c.logprobs)
	}
	dst := w.answer.appendHead(make([]byte, 0, size), "chat.completion")
	dst = append(dst, `,"choices":[`...)
	for i, c := range w.choices {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"index":`...)
		dst = strconv.AppendInt(dst, int64(c.index), 10)
		dst = append(dst, `,"message":`...)
		dst = w.message(dst, c)
		if len(c.logprobs) > 0 {
			dst = append(dst, `,"logprobs":{"content":[`...)
			dst = append(append(dst, c.logprobs...), `],"refusal":null}`...)
		} else {
			dst = append(dst, `,"logprobs":null`...)
		}
		dst = append(dst, `,"finish_reason":"`...)
		dst = append(append(dst, w.answer.Style.finishReason(c)...), `"}`...)
	}
	dst = append(dst, `],"usage":`...)
	return append(appendUsage(dst, w.usage), '}')
}

func (w *Collector) message(dst []byte, c *choice) []byte {
	dst = append(dst, `{"role":"assistant","content":`...)
	refusal := c.refusal()
	if c.text.Len() == 0 && len(c.calls) > 0 || refusal != "" {
		dst = append(dst, "null"...)
	} else {
		dst = c.text.AppendTo(dst)
	}
	dst = append(dst, `,"refusal":`...)
	if refusal == "" {
		dst = append(dst, "null"...)
	} else {
		dst = rawjson.AppendString(dst, refusal)
	}
	dst = append(dst, `,"annotations":`...)
	dst = appendAnnotations(dst, c.citations())
	if c.reasoning.Len() > 0 {
		dst = append(dst, `,"reasoning_content":`...)
		dst = c.reasoning.AppendTo(dst)
	}
	if len(c.pictures) > 0 {
		dst = append(dst, `,"images":[`...)
		dst = append(append(dst, c.pictures...), ']')
	}
	dst = w.calls(dst, c.calls)
	if c.seals != (seals{}) {
		dst = appendSeals(append(dst, ','), c.seals)
	}
	return append(dst, '}')
}

// calls writes the calls as the request expects them. Who asked with functions gets the first as function_call.
func (w *Collector) calls(dst []byte, calls []toolCall) []byte {
	if w.answer.Style.Functions && len(calls) > 0 {
		dst = append(dst, `,"function_call":`...)
		dst = appendFunctionCall(dst, calls[0].FunctionCall)
		calls = calls[1:]
	}
	for i, call := range calls {
		if i == 0 {
			dst = append(dst, `,"tool_calls":[`...)
		} else {
			dst = append(dst, ',')
		}
		dst = w.answer.Style.appendCall(dst, call, -1)
	}
	if len(calls) > 0 {
		dst = append(dst, ']')
	}
	return dst
}
