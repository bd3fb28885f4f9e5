package responses

import (
	"encoding/json"
	"strconv"

	"perigee"
	"perigee/internal/lib/rawjson"
)

// Replay returns the events of a stream for a stored response. Each text is one piece, because the
// pieces of the first stream are not stored. Events up to the number after are left out; -1 leaves
// out none. The last event is always there, because the first stream had more events, and a client
// that counts them would miss the end.
func Replay(response json.RawMessage, after int64) []byte {
	s := &Stream{skip: after + 1}
	var output json.RawMessage
	ending := statusCompleted
	c := rawjson.NewCursor(response)
	c.Read(nil, "output", &output, "status", func() { ending = status(c.String()) })
	begun := withMembers(response, map[string]string{
		"status": `"in_progress"`, "output": `[]`, "usage": `null`,
		"completed_at": `null`, "error": `null`, "incomplete_details": `null`,
	})
	s.emit("response.created", func(w *rawjson.Writer) { w.Key("response").Raw(begun) })
	s.emit("response.in_progress", func(w *rawjson.Writer) { w.Key("response").Raw(begun) })
	for _, item := range split(output) {
		s.progress(item)
		s.edge("response.output_item.done", func(w *rawjson.Writer) { w.Raw(item) })
		s.items++
	}
	s.number = max(s.number, after+1)
	s.emit(endEvent(ending), func(w *rawjson.Writer) { w.Key("response").Raw(response) })
	return s.w.Buf
}

// ReplayIdle returns a keep-alive before a replay.
func ReplayIdle() []byte { return framing{}.idle(nil) }

// ReplayError returns the only event of a replay that failed.
func ReplayError(err *perigee.Error) []byte {
	s := &Stream{}
	s.streamError(err)
	return s.w.Buf
}

// replay sends an event about the item, with members that are JSON already.
func (s *Stream) replay(event string, members ...perigee.Field) {
	s.about(event, func(w *rawjson.Writer) {
		for _, m := range members {
			w.Key(m.Name).Raw(m.Value)
		}
	})
}

func fieldOf(name string, value []byte) perigee.Field { return perigee.Field{Name: name, Value: value} }

func indexOf(name string, i int) perigee.Field {
	return fieldOf(name, strconv.AppendInt(nil, int64(i), 10))
}

// initial are the values of the members of an item when it begins; empty if they are absent then.
var initial = map[string]map[string]string{
	"message":               {"content": `[]`},
	"reasoning":             {"summary": `[]`, "encrypted_content": ``, "status": ``},
	"function_call":         {"arguments": `""`},
	"custom_tool_call":      {"input": `""`},
	"tool_search_call":      {"arguments": `{}`},
	"web_search_call":       {"action": ``},
	"image_generation_call": {"result": `null`},
}

// progress sends the events of a finished item that come before its last one.
func (s *Stream) progress(raw json.RawMessage) {
	item := readItem(rawjson.NewCursor(raw))
	s.id = string(item.id)
	s.added(func(w *rawjson.Writer) { writeBeginning(w, raw, item.kind) })
	switch item.kind {
	case "message":
		for i, part := range split(item.body) {
			s.replayContent(i, part)
		}
	case "reasoning":
		for i, part := range split(item.summary) {
			s.replaySummary(i, part)
		}
	case "function_call", "custom_tool_call":
		s.callProgress(&item, item.body)
	case "web_search_call":
		s.steps("response.web_search_call.", "in_progress", "searching", "completed")
	case "image_generation_call":
		s.steps("response.image_generation_call.", "in_progress", "generating", "completed")
	}
}

// callProgress sends the events of a finished call between its first and its last one. delta is the
// part of its arguments or of its input that was not sent.
func (s *Stream) callProgress(item *inputItem, delta json.RawMessage) {
	event, fields := "response.custom_tool_call_input", []perigee.Field{fieldOf("input", item.body)}
	if item.kind == "function_call" {
		name := rawjson.AppendString(nil, string(item.name))
		event, fields = "response.function_call_arguments", []perigee.Field{fieldOf("name", name), fieldOf("arguments", item.body)}
	}
	if string(delta) != `""` {
		s.replay(event+".delta", fieldOf("delta", delta))
	}
	s.replay(event+".done", fields...)
}

// writeBeginning writes an item without its content.
func writeBeginning(w *rawjson.Writer, item json.RawMessage, kind string) {
	w.Object()
	c := rawjson.NewCursor(item)
	for key := range c.Object() {
		name, value := string(key), c.Raw()
		switch before, ok := initial[kind][name]; {
		case ok && before == "":
		case ok:
			w.Key(name).Members(before)
		case name == "status":
			w.Members(`"status":"in_progress"`)
		default:
			w.AnyKey(name).Raw(value)
		}
	}
	w.EndObject()
}

// replayContent sends the events of a part of a message.
func (s *Stream) replayContent(i int, part json.RawMessage) {
	var kind string
	text, logprobs, annotations := json.RawMessage(`""`), json.RawMessage(`[]`), json.RawMessage(nil)
	c := rawjson.NewCursor(part)
	c.Read(nil, "type", &kind, "text", &text, "refusal", &text, "logprobs", &logprobs, "annotations", &annotations)
	at := indexOf("content_index", i)
	member, event := "text", "response.output_text"
	if kind == "refusal" {
		member, event = "refusal", "response.refusal"
	}
	empty := withMembers(part, map[string]string{member: `""`, "annotations": `[]`, "logprobs": `[]`})
	s.replay("response.content_part.added", at, fieldOf("part", empty))
	if kind == "refusal" {
		s.replay(event+".delta", at, fieldOf("delta", text))
		s.replay(event+".done", at, fieldOf(member, text))
	} else {
		s.replay(event+".delta", at, fieldOf("delta", text), fieldOf("logprobs", []byte(`[]`)))
		for j, annotation := range split(annotations) {
			s.replay(event+".annotation.added", at, indexOf("annotation_index", j), fieldOf("annotation", annotation))
		}
		s.replay(event+".done", at, fieldOf("text", text), fieldOf("logprobs", logprobs))
	}
	s.replay("response.content_part.done", at, fieldOf("part", part))
}

// replaySummary sends the events of a part of the thinking.
func (s *Stream) replaySummary(i int, part json.RawMessage) {
	text := json.RawMessage(`""`)
	if start, end, ok := rawjson.Find(part, "text"); ok {
		text = part[start:end]
	}
	at := indexOf("summary_index", i)
	s.replay("response.reasoning_summary_part.added", at, fieldOf("part", withMembers(part, map[string]string{"text": `""`})))
	if string(text) != `""` {
		s.replay("response.reasoning_summary_text.delta", at, fieldOf("delta", text))
	}
	s.replay("response.reasoning_summary_text.done", at, fieldOf("text", text))
	s.replay("response.reasoning_summary_part.done", at, fieldOf("part", part))
}
