package gemini

import (
	"slices"

	"perigee"
	"perigee/internal/lib/rawjson"
)

// An encoder writes one answer as chunks (GenerateContentResponse objects), if there are
// no frames of the provider: each content event becomes a chunk, and the finish reasons go last,
// together with the usage, as clients of this dialect expect.
type encoder struct {
	model    string
	id       string
	usage    *perigee.Usage
	finishes []perigee.Event
}

// encode appends the chunk for an event to dst. No chunk is due when it returns dst unchanged.
func (e *encoder) encode(dst []byte, ev *perigee.Event) []byte {
	switch ev.Kind {
	case perigee.EventCallPart: // this API has whole calls
		return dst
	case perigee.EventStart:
		e.model, e.id = ev.Model, ev.ResponseID
		return dst
	case perigee.EventUsage:
		e.usage = ev.Usage
		return dst
	case perigee.EventFinish:
		e.finishes = append(e.finishes, *ev)
		return dst
	}
	w := writer{}
	w.Buf = dst
	w.Object().Key("candidates").Array()
	w.candidate(ev.Candidate, orEmptyText(eventParts(ev)), nil, metadataOf(ev))
	w.EndArray()
	return e.tail(&w, nil)
}

// close appends the last chunk, if one is due.
func (e *encoder) close(dst []byte) []byte {
	if len(e.finishes) == 0 && e.usage == nil {
		return dst
	}
	w := writer{}
	w.Buf = dst
	w.Object()
	if i := slices.IndexFunc(e.finishes, func(ev perigee.Event) bool { return ev.Finish.Blocked }); i >= 0 {
		w.blocked(e.finishes[i].Finish)
	} else {
		w.list("candidates", len(e.finishes), func(i int) {
			w.candidate(e.finishes[i].Candidate, orEmptyText(nil), e.finishes[i].Finish, nil)
		})
	}
	return e.tail(&w, e.usage)
}

// orEmptyText returns parts, or an empty text if there are none, as the provider does at the end of a
// stream. Google's libraries drop the whole turn from the history of a chat if a chunk of it has no
// parts.
func orEmptyText(parts []perigee.Part) []perigee.Part {
	if len(parts) == 0 {
		return []perigee.Part{{Kind: perigee.PartText}}
	}
	return parts
}

// tail ends a chunk.
func (e *encoder) tail(w *writer, usage *perigee.Usage) []byte {
	w.usage(usage)
	w.text("modelVersion", e.model)
	w.text("responseId", e.id)
	return w.EndObject().Buf
}

// A Collector makes one whole GenerateContentResponse out of a stream of events, for callers that
// do not stream. If the provider sent a frame, that is the answer.
type Collector struct {
	encoder    encoder
	frame      []byte
	candidates []collected
}

type collected struct {
	index    int
	parts    []perigee.Part
	text     rawjson.Text // of the last part, while it still grows
	finish   *perigee.Finish
	metadata perigee.Fields
}

// Add takes the next event.
func (c *Collector) Add(ev *perigee.Event) {
	if c.frame != nil {
		return // everything is in there
	}
	switch ev.Kind {
	case perigee.EventFrame:
		if ev.Dialect != perigee.DialectGemini {
			return
		}
		c.frame = append([]byte(nil), ev.Frame...)
	case perigee.EventCallPart:
	case perigee.EventStart, perigee.EventUsage:
		c.encoder.encode(nil, ev)
	case perigee.EventFinish:
		c.candidate(ev.Candidate).finish = ev.Finish
	case perigee.EventGrounding, perigee.EventLogprobs:
		c.candidate(ev.Candidate).describe(ev)
	default:
		c.candidate(ev.Candidate).add(ev)
	}
}

func (c *Collector) candidate(index int) *collected {
	for i := range c.candidates {
		if c.candidates[i].index == index {
			return &c.candidates[i]
		}
	}
	c.candidates = append(c.candidates, collected{index: index})
	return &c.candidates[len(c.candidates)-1]
}

// add joins deltas of one kind into one part, and adds a lone signature to the part before it.
func (c *collected) add(ev *perigee.Event) {
	var last *perigee.Part
	if n := len(c.parts); n > 0 {
		last = &c.parts[n-1]
	}
	joins := last != nil && last.Kind == perigee.PartText && last.Signature == ""
	switch {
	case ev.Kind == perigee.EventSignature && last != nil && last.Signature == "":
		last.Signature = wrapSignature(ev.Signature)
	case joins && (ev.Kind == perigee.EventText && !last.Thought || ev.Kind == perigee.EventThinking && last.Thought):
		c.text.Add(ev.Text)
		last.Signature = wrapSignature(ev.Signature)
	default:
		parts := eventParts(ev)
		if parts == nil {
			return // this dialect has no place for it
		}
		c.flushText()
		c.parts = append(c.parts, parts...)
		c.text.Add(ev.Text)
	}
}

// describe keeps the latest of each kind of metadata.
func (c *collected) describe(ev *perigee.Event) {
	for _, f := range metadataOf(ev) {
		if i := slices.IndexFunc(c.metadata, func(m perigee.Field) bool { return m.Name == f.Name }); i >= 0 {
			c.metadata[i] = f
		} else {
			c.metadata = append(c.metadata, f)
		}
	}
}

// flushText sets the collected text of the last part.
func (c *collected) flushText() {
	if n := len(c.parts); n > 0 && c.parts[n-1].Kind == perigee.PartText {
		c.parts[n-1].Text = perigee.Plain(c.text.String())
	}
	c.text = rawjson.Text{}
}

// Bytes returns the whole answer.
func (c *Collector) Bytes() []byte {
	if c.frame != nil {
		return c.frame
	}
	w := writer{}
	w.Object()
	if i := slices.IndexFunc(c.candidates, func(k collected) bool { return k.finish != nil && k.finish.Blocked }); i >= 0 {
		w.blocked(c.candidates[i].finish)
	} else {
		w.list("candidates", len(c.candidates), func(i int) {
			k := &c.candidates[i]
			k.flushText()
			w.candidate(k.index, k.parts, k.finish, k.metadata)
		})
	}
	return c.encoder.tail(&w, c.encoder.usage)
}

// metadataOf returns the members of a candidate other than its content that an event has.
func metadataOf(ev *perigee.Event) perigee.Fields {
	switch ev.Kind {
	case perigee.EventGrounding:
		return perigee.Fields{{Name: "groundingMetadata", Value: ev.Raw}}
	case perigee.EventLogprobs:
		return perigee.Fields{{Name: "logprobsResult", Value: ev.Raw}}
	}
	return nil
}

// eventParts returns the parts of a content event.
func eventParts(ev *perigee.Event) []perigee.Part {
	p := perigee.Part{Signature: wrapSignature(ev.Signature), Thought: ev.Thought}
	switch ev.Kind {
	case perigee.EventText, perigee.EventSignature:
		p.Kind, p.Text = perigee.PartText, perigee.Plain(ev.Text)
	case perigee.EventThinking:
		p.Kind, p.Text, p.Thought = perigee.PartText, perigee.Plain(ev.Text), true
	case perigee.EventCall:
		p.Kind, p.Call = perigee.PartCall, ev.Call
	case perigee.EventBlob:
		p.Kind, p.Blob = perigee.PartBlob, ev.Blob
	case perigee.EventPart:
		c := rawjson.NewCursor(ev.Raw)
		return []perigee.Part{decodePart(c)}
	default:
		return nil
	}
	return []perigee.Part{p}
}

// blocked writes why there is no answer.
func (w *writer) blocked(finish *perigee.Finish) {
	w.Key("promptFeedback").Object()
	w.text("blockReason", reasonOf(finish))
	w.EndObject()
}

func (w *writer) candidate(index int, parts []perigee.Part, finish *perigee.Finish, metadata perigee.Fields) {
	w.Object().Key("content")
	w.content(&perigee.Content{Role: perigee.RoleModel, Parts: parts})
	if finish != nil {
		w.text("finishReason", reasonOf(finish))
		w.text("finishMessage", finish.Message)
	}
	w.extra(metadata)
	w.Key("index").Int(int64(index)).EndObject()
}

func (w *writer) usage(u *perigee.Usage) {
	if u == nil {
		return
	}
	w.Key("usageMetadata").Object().Key("promptTokenCount").Int(u.Input)
	w.Key("candidatesTokenCount").Int(u.Output - u.Thinking).Key("totalTokenCount").Int(u.Total())
	w.count("cachedContentTokenCount", u.Cached)
	w.count("thoughtsTokenCount", u.Thinking)
	w.EndObject()
}
