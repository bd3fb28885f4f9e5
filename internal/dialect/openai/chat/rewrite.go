package chat

import (
	"slices"

	"perigee"
	"perigee/internal/lib/rawjson"
)

// A History is how a server takes the reasoning in the messages of the model.
type History struct {
	Form    ReasoningForm
	Keep    bool // every message with calls must have it
	Refused bool // no message may have it
}

// RewriteReasoning returns a body with the reasoning that the server takes in messages of the model:
// with the remembered reasoning that the client has lost, and without the reasoning of other
// providers. All other bytes stay, except for white space in messages that lose a member. If nothing
// changes, the result is body. index is of the body, or nil.
func RewriteReasoning(index *rawjson.Document, body []byte, h History, recall perigee.Recall) (rest []byte, notes []perigee.Note) {
	messages := modelMessages(index.Value(body))
	if len(messages) == 0 {
		return body, nil
	}
	list := make([]perigee.Recalled, len(messages))
	for i := range messages {
		list[i].Thinking, list[i].Calls = messages[i].thinking, messages[i].calls
	}
	if recall != nil {
		recall.Messages(list)
	}
	var edits []rawjson.Edit
	var dropped perigee.Notes
	for i := range messages {
		m := &messages[i]
		object, drops := body[m.start:m.end], m.reasons && (h.Refused || list[i].Foreign)
		if drops {
			object = withoutReasoning(object)
			if list[i].Foreign {
				dropped.Dropped(perigee.OtherReasoning.Subject)
			} else {
				dropped.Add(perigee.NoteOmitted, "earlier thinking")
			}
		}
		var missing []byte
		if len(m.calls) > 0 && !h.Refused && (drops || !m.plain || h.Keep && !m.keeps) {
			missing = h.encode(list[i].Known)
		}
		if missing != nil && m.null && !drops {
			object = withoutReasoning(object) // no member may occur twice
		}
		if drops || missing != nil {
			edits = append(edits, rawjson.Edit{Start: m.start, End: m.end, New: slices.Concat(object[:1], missing, object[1:])})
		}
	}
	if edits == nil {
		return body, nil
	}
	return rawjson.Splice(body, edits...), dropped.List()
}

// RewriteIDs returns a body with other ids of calls, in calls and in their results. All other bytes
// stay. If no id changes, the result is body. index is of the body, or nil.
func RewriteIDs(index *rawjson.Document, body []byte, id func(string) string) []byte {
	var edits []rawjson.Edit
	c := index.Value(body)
	replace := func() {
		if start := c.Offset(); c.Kind() == rawjson.String {
			was := c.Alias()
			if next := id(was); next != was {
				edits = append(edits, rawjson.Edit{Start: start, End: c.Offset(), New: rawjson.AppendString(nil, next)})
			}
		}
	}
	eachMessage(c, func() {
		for key := range c.Object() {
			switch {
			case string(key) == "tool_call_id":
				replace()
			case string(key) == "tool_calls" && c.Kind() == rawjson.Array:
				for range c.Array() {
					if c.Kind() != rawjson.Object {
						continue
					}
					for key := range c.Object() {
						if string(key) == "id" {
							replace()
						}
					}
				}
			}
		}
	})
	if edits == nil {
		return body
	}
	return rawjson.Splice(body, edits...)
}

// eachMessage calls visit before each message of the body before a cursor that is an object.
func eachMessage(c *rawjson.Cursor, visit func()) {
	if c.Kind() != rawjson.Object {
		return
	}
	for key := range c.Object() {
		if string(key) != "messages" || c.Kind() != rawjson.Array {
			continue
		}
		for range c.Array() {
			if c.Kind() == rawjson.Object {
				visit()
			}
		}
	}
}

// encode returns the member for the reasoning of a message with calls, and a comma. It is nil if the
// server needs none.
func (h *History) encode(known []perigee.Part) []byte {
	if known == nil && !h.Keep {
		return nil
	}
	w := requestWriter{form: Form{Reasoning: h.Form}}
	w.Object()
	w.thoughts(known)
	members := w.EndObject().Buf[1:]
	if len(members) == 1 {
		return nil
	}
	members[len(members)-1] = ','
	return members
}

// A modelMessage is a message of the model in the bytes of a request.
type modelMessage struct {
	start, end int // of the object
	thinking   perigee.Text
	calls      []string // the ids of its calls
	reasons    bool     // it has a member with reasoning or signatures
	plain      bool     // it has reasoning, beyond signatures
	null       bool     // one of these members is null
	keeps      bool     // it has reasoning_content, which servers require that must have reasoning back
}

// reasoningMembers are the members of a message with reasoning or signatures.
var reasoningMembers = []string{"reasoning_content", "reasoning", "reasoning_details", "extra_content"}

// modelMessages lists the messages of the model, in the body before a cursor, that have reasoning or
// calls.
func modelMessages(c *rawjson.Cursor) (list []modelMessage) {
	eachMessage(c, func() {
		m := modelMessage{start: c.Offset()}
		if m.read(c) == "assistant" && (m.reasons || len(m.calls) > 0) {
			list = append(list, m)
		}
	})
	return list
}

// read reads a message and returns its role.
func (m *modelMessage) read(c *rawjson.Cursor) (role string) {
	for key := range c.Object() {
		if string(key) == "role" {
			role = readRole(c)
		} else {
			m.member(c, key)
		}
	}
	m.end = c.Offset()
	return role
}

// member reads a member of a message.
func (m *modelMessage) member(c *rawjson.Cursor, key []byte) {
	kind := c.Kind()
	switch name := string(key); {
	case kind == rawjson.Null:
		m.null = m.null || slices.Contains(reasoningMembers, name)
	case slices.Contains(reasoningMembers, name):
		m.reasons = true
		m.plain = m.plain || name != "extra_content"
		m.keeps = m.keeps || name == "reasoning_content"
		if kind == rawjson.String {
			if text := c.Inside(); text != "" {
				m.thinking = perigee.Escaped(text)
			}
		}
	case name == "tool_calls" && kind == rawjson.Array:
		for range c.Array() {
			m.call(c)
		}
	case name == "content" && kind == rawjson.Array:
		for range c.Array() {
			m.contentPart(c)
		}
	}
}

// call reads a tool call.
func (m *modelMessage) call(c *rawjson.Cursor) {
	id := ""
	if c.Kind() == rawjson.Object {
		for key := range c.Object() {
			switch string(key) {
			case "id":
				id = text(c)
			case "extra_content":
				m.reasons = true
			}
		}
	}
	m.calls = append(m.calls, id)
}

// contentPart reads a part of a content that is a list, where some servers have thinking.
func (m *modelMessage) contentPart(c *rawjson.Cursor) {
	part := c.Raw()
	if !isThinkingPart(part) {
		return
	}
	m.reasons, m.plain = true, true
	inner := rawjson.NewCursor(part)
	for key := range inner.Object() {
		if string(key) == "thinking" {
			m.thinking = perigee.Plain(readThinking(inner))
		}
	}
}

func isThinkingPart(part []byte) bool {
	c := rawjson.NewCursor(part)
	if c.Kind() != rawjson.Object {
		return false
	}
	for key := range c.Object() {
		if string(key) == "type" {
			return text(c) == "thinking"
		}
	}
	return false
}

// withoutReasoning returns a message without its reasoning and its signatures.
func withoutReasoning(message []byte) []byte {
	w := rawjson.Writer{Buf: make([]byte, 0, len(message))}
	w.Object()
	c := rawjson.NewCursor(message)
	for key := range c.Object() {
		name := string(key)
		if slices.Contains(reasoningMembers, name) {
			continue
		}
		w.AnyKey(name)
		switch kind := c.Kind(); {
		case name == "tool_calls" && kind == rawjson.Array:
			w.Array()
			for range c.Array() {
				w.Raw(unsigned(c.Raw()))
			}
			w.EndArray()
		case name == "content" && kind == rawjson.Array:
			parts := 0
			w.Array()
			for range c.Array() {
				if part := c.Raw(); !isThinkingPart(part) {
					w.Raw(part)
					parts++
				}
			}
			w.EndArray()
			if parts == 0 {
				w.Buf = append(w.Buf[:len(w.Buf)-2], `""`...)
			}
		default:
			w.Raw(c.Raw())
		}
	}
	return w.EndObject().Buf
}

// unsigned returns a tool call without its signature.
func unsigned(call []byte) []byte {
	if _, _, ok := rawjson.Find(call, "extra_content"); !ok {
		return call
	}
	w := rawjson.Writer{Buf: make([]byte, 0, len(call))}
	w.Object()
	c := rawjson.NewCursor(call)
	for key := range c.Object() {
		if string(key) == "extra_content" {
			continue
		}
		w.AnyKey(string(key)).Raw(c.Raw())
	}
	return w.EndObject().Buf
}
