package gemini

import (
	"slices"

	"perigee"
	"perigee/internal/lib/rawjson"
)

// A Decoder turns the chunks of one answer into events. It validates each chunk as JSON before it
// reads it. The zero value is ready to use.
type Decoder struct {
	// Envelope is the member of an object in which the provider wraps chunks. A chunk without it is
	// accepted as well.
	Envelope string

	started  bool
	finished bool
	chunk    response
	cursor   rawjson.Cursor
	inner    []byte // the chunk without its envelope

	visitMember func(m rawjson.Member) // made once, because every chunk in an envelope needs it
}

// Finished reports whether the answer has come to its end.
func (d *Decoder) Finished() bool { return d.finished }

// Chunk returns the chunk that was decoded last, without its envelope.
func (d *Decoder) Chunk() []byte { return d.inner }

// check validates a chunk as JSON and takes it out of its envelope.
func (d *Decoder) check(chunk []byte) error {
	d.inner = chunk
	if d.Envelope == "" {
		return rawjson.Check(chunk)
	}
	if d.visitMember == nil {
		d.visitMember = func(m rawjson.Member) {
			if m.Kind == rawjson.Object && string(m.Name) == d.Envelope {
				d.inner = d.inner[m.Start:m.End:m.End]
			}
		}
	}
	return rawjson.CheckTop(chunk, d.visitMember)
}

// Decode appends the events of one chunk (a GenerateContentResponse) to events. For a chunk
// that is not JSON or that reports an error, it returns an error and events without additions.
func (d *Decoder) Decode(events []perigee.Event, chunk []byte) ([]perigee.Event, error) {
	if err := d.check(chunk); err != nil {
		return events, perigee.Errorf(perigee.ClassUnavailable, "the provider sent something that is not JSON: %w", err)
	}
	r := &d.chunk
	*r = response{events: events}
	at := len(events)
	if !d.started {
		// A place for the start event, which is complete only after the whole chunk was read.
		r.start = &perigee.Event{Kind: perigee.EventStart}
		r.events = append(r.events, perigee.Event{})
	}
	c := &d.cursor
	c.Reset(d.inner)
	defer c.Reset(nil) // the chunk belongs to the caller
	if kind := c.Kind(); kind != rawjson.Object {
		return events, perigee.Errorf(perigee.ClassUnavailable, "the provider sent %v where an answer should be", kind)
	}
	r.read(c)
	if err := c.Err(); err != nil {
		return events, perigee.Errorf(perigee.ClassUnavailable, "the provider sent an answer of unknown shape: %w", err)
	}
	if r.failure != nil {
		return events, r.failure
	}
	if !d.started {
		r.events[at] = *r.start
		d.started = true
	}
	d.finished = d.finished || r.finished
	return r.events, nil
}

// A response is one chunk while it is read.
type response struct {
	events   []perigee.Event
	start    *perigee.Event // nil if the answer has started before
	finished bool
	failure  error
}

func (r *response) read(c *rawjson.Cursor) {
	blocked := ""
	for key := range c.Object() {
		switch string(key) {
		case "candidates":
			for i := range c.Array() {
				r.candidate(c, i)
			}
		case "usageMetadata", "usage_metadata":
			if usage := decodeUsage(c); usage != nil {
				r.events = append(r.events, perigee.Event{Kind: perigee.EventUsage, Usage: usage})
			}
		case "modelVersion", "model_version":
			if r.start != nil {
				r.start.Model = c.String()
			}
		case "responseId", "response_id":
			if r.start != nil {
				r.start.ResponseID = c.String()
			}
		case "promptFeedback", "prompt_feedback":
			read(c, nil, "blockReason", &blocked)
		case "error":
			if c.Kind() != rawjson.Null {
				r.failure = DecodeError(0, c.Raw())
			}
		}
	}
	if blocked != "" {
		finish := FinishOf(blocked)
		finish.Message, finish.Blocked = "the prompt was blocked", true
		r.finish(0, finish)
	}
}

func (r *response) finish(candidate int, finish perigee.Finish) {
	r.events = append(r.events, perigee.Event{Kind: perigee.EventFinish, Candidate: candidate, Finish: &finish})
	r.finished = true
}

func (r *response) candidate(c *rawjson.Cursor, index int) {
	var reason, message string
	from := len(r.events)
	for key := range c.Object() {
		switch string(key) {
		case "index":
			index = int(c.Int64())
		case "content":
			for key := range c.Object() {
				if string(key) == "parts" {
					for range c.Array() {
						r.part(c)
					}
				}
			}
		case "finishReason", "finish_reason":
			reason = c.String()
		case "finishMessage", "finish_message":
			message = c.String()
		case "groundingMetadata", "grounding_metadata":
			if c.Kind() != rawjson.Null {
				raw := c.Raw()
				r.events = append(r.events, perigee.Event{Kind: perigee.EventGrounding,
					Grounding: decodeGrounding(raw), Raw: slices.Clone(raw)})
			}
		case "logprobsResult", "logprobs_result":
			if c.Kind() != rawjson.Null {
				raw := c.Raw()
				r.events = append(r.events, perigee.Event{Kind: perigee.EventLogprobs, Logprobs: decodeLogprobs(raw), Raw: slices.Clone(raw)})
			}
		}
	}
	for i := range r.events[from:] {
		r.events[from+i].Candidate = index
	}
	if reason != "" {
		finish := FinishOf(reason)
		finish.Message = message
		r.finish(index, finish)
	}
}

// part turns one part into an event. An empty text with a signature is a signature for the block
// before it; an empty text without one is skipped.
func (r *response) part(c *rawjson.Cursor) {
	p := decodePart(c)
	e := perigee.Event{Signature: p.Signature, Thought: p.Thought}
	switch p.Kind {
	case perigee.PartText:
		e.Text = rawjson.Unescaped(p.Text.Form())
		switch {
		case e.Text == "" && p.Signature == "":
			return
		case e.Text == "":
			e.Kind = perigee.EventSignature
		case p.Thought:
			e.Kind = perigee.EventThinking
		default:
			e.Kind = perigee.EventText
		}
	case perigee.PartCall:
		p.Call.Args = slices.Clone(p.Call.Args)
		own(p.Call.Extra)
		e.Kind, e.Call = perigee.EventCall, p.Call
	case perigee.PartBlob:
		own(p.Blob.Extra)
		e.Kind, e.Blob = perigee.EventBlob, p.Blob
	case perigee.PartOther:
		if len(p.Extra) == 0 {
			if p.Signature != "" {
				e.Kind = perigee.EventSignature
				break
			}
			return
		}
		fallthrough
	default:
		w := writer{}
		w.part(&p)
		e.Kind, e.Raw = perigee.EventPart, w.Buf
	}
	r.events = append(r.events, e)
}

// own copies values out of the chunk, because the next chunk overwrites its bytes while events are
// kept.
func own(fields perigee.Fields) {
	for i := range fields {
		fields[i].Value = slices.Clone(fields[i].Value)
	}
}

func decodeUsage(c *rawjson.Cursor) *perigee.Usage {
	if c.Kind() == rawjson.Null {
		return nil
	}
	var prompt, candidates, thoughts, tools, total, cached int64
	// No answer has a trillion tokens. Such a value would spoil every sum that includes it.
	count := func() int64 { return min(max(c.Int64(), 0), 1<<40) }
	for key := range c.Object() { // not with read: every chunk has one
		switch string(key) {
		case "promptTokenCount", "prompt_token_count":
			prompt = count()
		case "candidatesTokenCount", "candidates_token_count":
			candidates = count()
		case "thoughtsTokenCount", "thoughts_token_count":
			thoughts = count()
		case "toolUsePromptTokenCount", "tool_use_prompt_token_count":
			tools = count()
		case "totalTokenCount", "total_token_count":
			total = count()
		case "cachedContentTokenCount", "cached_content_token_count":
			cached = count()
		}
	}
	input := prompt + tools
	// Some answers leave candidatesTokenCount out; the output is then computed from the total.
	output := max(candidates+thoughts, total-input, 0)
	if candidates > 0 {
		output = candidates + thoughts
	}
	return &perigee.Usage{Input: input, Cached: cached, Output: output, Thinking: thoughts}
}
