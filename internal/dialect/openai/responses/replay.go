package responses

import (
	"encoding/json"

	"perigee"
	"perigee/internal/rawjson"
)

// Replay returns the events of a stream that ends in a response which is stored: those that an answer as a whole would have
// had, with each text in one piece, because how the first stream had cut it is not known any more. Events up to the number
// after are left out (-1: none), but never the last one: who counts in the pieces of the first stream would miss the end.
func Replay(response json.RawMessage, after int64) []byte {
	p := &replay{after: after}
	p.frames = eventFrames{}
	var output json.RawMessage
	ending := statusCompleted
	c := rawjson.NewCursor(response)
	for key := range c.Object() {
		switch string(key) {
		case "status":
			ending = status(c.String())
		case "output":
			output = c.Raw()
		}
	}
	begun := withMembers(response, map[string]string{
		"status": `"in_progress"`, "output": `[]`, "usage": `null`, "completed_at": `null`, "error": `null`, "incomplete_details": `null`,
	})
	p.tell("response.created", func() { p.with("response", begun) })
	p.tell("response.in_progress", func() { p.with("response", begun) })
	for _, item := range split(output) {
		p.item(item)
		p.items++
	}
	p.after = min(p.after, p.number-1)
	if after > p.after {
		p.number = after + 1
	}
	p.tell(endEvent(ending), func() { p.with("response", response) })
	return p.w.buf
}

// ReplayIdle is a sign of life before a replay.
func ReplayIdle() []byte { return eventFrames{}.idle(nil) }

// ReplayError is the one event of a replay that cannot be.
func ReplayError(err *perigee.Error) []byte {
	p := &replay{after: -1}
	p.frames = eventFrames{}
	p.streamError(err)
	return p.w.buf
}

// A replay is a stream whose items are whole already.
type replay struct {
	Stream
	after int64 // the number of the last event that the client has
}

// tell writes an event, unless the client has it.
func (p *replay) tell(name string, write func()) {
	if p.number <= p.after {
		p.number++
		return
	}
	p.event(name)
	write()
	p.send()
}

// with appends a member to the event.
func (p *replay) with(name string, value []byte) {
	p.w.lit(`,"` + name + `":`)
	p.w.raw(value)
}

// about writes an event about the item, with one more member.
func (p *replay) about(event, index, name string, value []byte) {
	p.tell(event, func() {
		p.where()
		p.w.lit(index)
		if name != "" {
			p.with(name, value)
		}
	})
}

// unsaid is what the members of an item say when it begins; empty: they are not there yet.
var unsaid = map[string]map[string]string{
	"message":               {"content": `[]`},
	"reasoning":             {"summary": `[]`, "encrypted_content": ``, "status": ``},
	"function_call":         {"arguments": `""`},
	"custom_tool_call":      {"input": `""`},
	"tool_search_call":      {"arguments": `{}`},
	"web_search_call":       {"action": ``},
	"image_generation_call": {"result": `null`},
}

// item writes the events of one item.
func (p *replay) item(raw json.RawMessage) {
	item := readItem(rawjson.NewCursor(raw))
	p.id = string(item.id)
	p.edge("response.output_item.added", beginning(raw, item.kind))
	switch item.kind {
	case "message":
		for i, part := range split(item.body) {
			p.content(i, part)
		}
	case "reasoning":
		for i, part := range split(item.summary) {
			p.summary(i, part)
		}
	case "function_call":
		p.about("response.function_call_arguments.delta", "", "delta", item.body)
		p.about("response.function_call_arguments.done", `,"name":`+string(rawjson.AppendString(nil, string(item.name))), "arguments", item.body)
	case "custom_tool_call":
		p.about("response.custom_tool_call_input.delta", "", "delta", item.body)
		p.about("response.custom_tool_call_input.done", "", "input", item.body)
	case "web_search_call":
		p.steps("response.web_search_call.", "in_progress", "searching", "completed")
	case "image_generation_call":
		p.steps("response.image_generation_call.", "in_progress", "generating", "completed")
	}
	p.edge("response.output_item.done", raw)
}

// edge writes the event with which an item begins or ends.
func (p *replay) edge(name string, item json.RawMessage) {
	p.tell(name, func() {
		p.w.lit(`,"output_index":`)
		p.w.int(int64(p.items))
		p.with("item", item)
	})
}

func (p *replay) steps(name string, steps ...string) {
	for _, step := range steps {
		p.about(name+step, "", "", nil)
	}
}

// beginning is an item before anything was said in it.
func beginning(item json.RawMessage, kind string) json.RawMessage {
	w := writer{buf: []byte("{")}
	c := rawjson.NewCursor(item)
	for key := range c.Object() {
		name, value := string(key), c.Raw()
		switch before, ok := unsaid[kind][name]; {
		case ok && before == "":
		case ok:
			w.member(name, []byte(before))
		case name == "status":
			w.member(name, []byte(`"in_progress"`))
		default:
			w.member(name, value)
		}
	}
	w.lit("}")
	return w.buf
}

// content writes the events of a part of a message.
func (p *replay) content(i int, part json.RawMessage) {
	var kind string
	text, logprobs, annotations := json.RawMessage(`""`), json.RawMessage(`[]`), json.RawMessage(nil)
	c := rawjson.NewCursor(part)
	for key := range c.Object() {
		switch string(key) {
		case "type":
			kind = c.String()
		case "text", "refusal":
			text = c.Raw()
		case "logprobs":
			logprobs = c.Raw()
		case "annotations":
			annotations = c.Raw()
		default:
			c.Skip()
		}
	}
	index := writer{buf: []byte(`,"content_index":`)}
	index.int(int64(i))
	at := string(index.buf)
	member, event := "text", "response.output_text"
	if kind == "refusal" {
		member, event = "refusal", "response.refusal"
	}
	empty := withMembers(part, map[string]string{member: `""`, "annotations": `[]`, "logprobs": `[]`})
	p.about("response.content_part.added", at, "part", empty)
	if kind == "refusal" {
		p.about(event+".delta", at, "delta", text)
		p.about(event+".done", at, member, text)
	} else {
		p.about(event+".delta", at+`,"delta":`+string(text), "logprobs", []byte(`[]`))
		for j, annotation := range split(annotations) {
			number := writer{buf: []byte(at + `,"annotation_index":`)}
			number.int(int64(j))
			p.about(event+".annotation.added", string(number.buf), "annotation", annotation)
		}
		p.about(event+".done", at+`,"text":`+string(text), "logprobs", logprobs)
	}
	p.about("response.content_part.done", at, "part", part)
}

// summary writes the events of a part of the thinking.
func (p *replay) summary(i int, part json.RawMessage) {
	text := json.RawMessage(`""`)
	if start, end, ok := rawjson.Find(part, "text"); ok {
		text = part[start:end]
	}
	index := writer{buf: []byte(`,"summary_index":`)}
	index.int(int64(i))
	at := string(index.buf)
	p.about("response.reasoning_summary_part.added", at, "part", withMembers(part, map[string]string{"text": `""`}))
	if string(text) != `""` {
		p.about("response.reasoning_summary_text.delta", at, "delta", text)
	}
	p.about("response.reasoning_summary_text.done", at, "text", text)
	p.about("response.reasoning_summary_part.done", at, "part", part)
}
