package chat

import (
	"slices"

	"perigee"
	"perigee/internal/dialect/openai"
	"perigee/internal/lib/rawjson"
)

// A Collector makes one chat.completion object out of a stream of events. If the provider sent a
// frame, that is the answer.
type Collector struct {
	progress
	frame []byte
}

// NewCollector returns the collector for one answer.
func NewCollector(answer Answer) *Collector { return &Collector{progress: newProgress(answer)} }

// Add takes the next event.
func (w *Collector) Add(ev *perigee.Event) {
	if ev.Kind == perigee.EventFrame && ev.Dialect == perigee.DialectOpenAIChat {
		w.frame = slices.Clone(ev.Frame)
	}
	if w.frame != nil {
		return // everything is in there
	}
	if c, add, ok := w.take(ev); ok {
		c.add(&add)
	}
}

// add collects the content of an event.
func (c *choice) add(add *content) {
	if add.piece { // the call follows
		return
	}
	c.text.Add(add.text)
	c.reasoning.Add(add.reasoning)
	switch {
	case add.call != nil:
		c.calls = append(c.calls, toolCall{add.call, add.signature})
		c.callCount++
	case add.signature != "" && len(c.calls) > 0: // a signature that came after its call
		c.calls[len(c.calls)-1].signature = add.signature
	case add.image != nil:
		writeImage(&c.pictures, add.image, c.images)
		c.images++
	case add.logprobs != nil:
		openai.WriteLogprobs(&c.logprobs, add.logprobs)
	}
}

// citations returns the sources of passages of the text.
func (c *choice) citations() []openai.Citation {
	found := c.trail.All()
	if found == nil || len(found.Supports) == 0 {
		return openai.Citations("", found) // the text does not matter then
	}
	return openai.Citations(c.text.String(), found)
}

// Bytes returns the whole answer.
func (w *Collector) Bytes() []byte {
	if w.frame != nil {
		return w.frame
	}
	size := 1024
	for _, c := range w.all() {
		size += (c.text.Len()+c.reasoning.Len())*17/16 + len(c.pictures.Buf) + len(c.logprobs.Buf)
	}
	out := &rawjson.Writer{Buf: make([]byte, 0, size)}
	w.answer.head(out, "chat.completion").Key("choices").Array()
	for _, c := range w.choices {
		out.Object().Key("index").Int(int64(c.index))
		w.message(out, c)
		out.Key("logprobs")
		if len(c.logprobs.Buf) > 0 {
			out.Object().Key("content").Array().Elements(c.logprobs.Buf).EndArray().Members(`"refusal":null`).EndObject()
		} else {
			out.Null()
		}
		out.Key("finish_reason").String(w.answer.Style.finishReason(c)).EndObject()
	}
	out.EndArray()
	writeUsage(out, w.usage)
	return out.EndObject().Buf
}

func (w *Collector) message(out *rawjson.Writer, c *choice) {
	out.Key("message").Object().Members(`"role":"assistant"`).Key("content")
	refusal := c.refusal()
	if c.text.Len() == 0 && (len(c.calls) > 0 || refusal != "") {
		out.Null()
	} else {
		out.Text(&c.text)
	}
	out.Key("refusal").StringOrNull(refusal)
	writeAnnotations(out, c.citations())
	if c.reasoning.Len() > 0 {
		out.Key("reasoning_content").Text(&c.reasoning)
	}
	if c.images > 0 {
		out.Key("images").Array().Elements(c.pictures.Buf).EndArray()
	}
	w.calls(out, c.calls)
	writeSignatures(out, c.signatures)
	out.EndObject()
}

// calls writes the calls as the request expects them. A request with functions gets the first one
// as function_call.
func (w *Collector) calls(out *rawjson.Writer, calls []toolCall) {
	if w.answer.Style.Functions && len(calls) > 0 {
		out.Key("function_call")
		writeFunctionCall(out, calls[0].FunctionCall)
		calls = calls[1:]
	}
	if len(calls) == 0 {
		return
	}
	out.Key("tool_calls").Array()
	for _, call := range calls {
		w.answer.Style.writeCall(out, call, -1)
	}
	out.EndArray()
}
