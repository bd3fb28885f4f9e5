package chat

import (
	"slices"

	"perigee"
	"perigee/internal/lib/rawjson"
)

// A History is how a server takes the reasoning in the messages of the model.
type History struct {
	Form     ReasoningForm
	Keep     bool // every message with calls must have it
	Complete bool // with Keep: every message of the model must have it
	Refused  bool // no message may have it
}

// Rewrite returns the edits of a body after which its messages have the reasoning and the ids of calls
// that the server takes, in order: with the remembered reasoning that the client has lost, without the
// reasoning of other providers, and with other ids, if id is not nil. All other bytes stay. index is
// of the body, or nil.
func Rewrite(index *rawjson.Document, body []byte, h History, recall perigee.Recall, id func(string) string) ([]rawjson.Edit, []perigee.Note) {
	edits, notes := rewriteReasoning(index, body, h, recall)
	if id == nil {
		return edits, notes
	}
	if ids := rewriteIDs(index, body, id); len(ids) > 0 {
		edits = append(edits, ids...)
		slices.SortStableFunc(edits, func(a, b rawjson.Edit) int { return a.Start - b.Start })
	}
	return edits, notes
}

// rewriteReasoning returns the edits for the reasoning.
func rewriteReasoning(index *rawjson.Document, body []byte, h History, recall perigee.Recall) (edits []rawjson.Edit, notes []perigee.Note) {
	messages := modelMessages(index.Value(body), h.Complete)
	if len(messages) == 0 {
		return nil, nil
	}
	list := make([]perigee.Recalled, len(messages))
	for i := range messages {
		m := &messages[i]
		list[i].Thinking, list[i].Sealed, list[i].Calls = m.thinking, m.sealed, m.calls
	}
	if recall != nil {
		recall.Messages(list)
	}
	var dropped perigee.Notes
	for i := range messages {
		m := &messages[i]
		drops := m.reasons && (h.Refused || list[i].Foreign)
		if drops && list[i].Foreign {
			dropped.Dropped(perigee.OtherReasoning.Subject)
		} else if drops {
			dropped.Add(perigee.NoteOmitted, "earlier thinking")
		}
		var missing []byte
		if (len(m.calls) > 0 || h.Complete) && !h.Refused && (drops || !m.plain || h.Keep && !m.keeps) {
			missing = h.encode(list[i].Known)
		}
		if null, ok := m.nulls[h.Form.member()]; missing != nil && ok && !drops { // no member may occur twice
			edits = append(edits, rawjson.Edit{Start: null, End: null + len("null"), New: missing})
		} else if missing != nil {
			member := append(rawjson.AppendString(nil, h.Form.member()), ':')
			edits = append(edits, rawjson.Edit{Start: m.start + 1, End: m.start + 1, New: append(append(member, missing...), ',')})
		}
		if drops {
			r := remover{body: body, at: m.start, edits: edits}
			r.message(rawjson.NewCursor(body[m.start:m.end]))
			edits = r.edits
		}
	}
	return edits, dropped.List()
}

// rewriteIDs returns the edits for the ids of calls, in calls and in their results.
func rewriteIDs(index *rawjson.Document, body []byte, id func(string) string) (edits []rawjson.Edit) {
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
	return edits
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

// encode returns the member for the reasoning of a message, as h.Form names it. It is nil if the server
// needs none.
func (h *History) encode(known []perigee.Part) []byte {
	if known == nil && !h.Keep {
		return nil
	}
	w := requestWriter{form: Form{Reasoning: h.Form}}
	w.Object()
	w.thoughts(known)
	object := w.EndObject().Buf
	start, end, ok := rawjson.Find(object, h.Form.member())
	if !ok {
		return nil
	}
	return object[start:end:end]
}

// A modelMessage is a message of the model in the bytes of a request.
type modelMessage struct {
	start, end int // of the object
	thinking   perigee.Text
	sealed     []string       // its signatures and sealed reasoning
	calls      []string       // the ids of its calls
	reasons    bool           // it has a member with reasoning or signatures
	plain      bool           // it has reasoning, beyond signatures
	nulls      map[string]int // the offsets of such members that are null
	keeps      bool           // it has reasoning_content, which servers require that must have reasoning back
}

// isReasoningMember reports whether a member of a message has reasoning or signatures.
func isReasoningMember(key []byte) bool {
	switch string(key) {
	case "reasoning_content", "reasoning", "reasoning_details", "extra_content":
		return true
	}
	return false
}

// modelMessages lists the messages of the model, in the body before a cursor: all, or those that have
// reasoning or calls.
func modelMessages(c *rawjson.Cursor, all bool) (list []modelMessage) {
	eachMessage(c, func() {
		list = append(list, modelMessage{start: c.Offset()})
		last := len(list) - 1
		if m := &list[last]; m.read(c) != "assistant" || !all && !m.reasons && len(m.calls) == 0 {
			list = list[:last]
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
	kind, reasons := c.Kind(), isReasoningMember(key)
	switch {
	case kind == rawjson.Null:
		if reasons {
			if m.nulls == nil {
				m.nulls = map[string]int{}
			}
			m.nulls[string(key)] = c.Offset()
		}
	case reasons:
		m.reasons = true
		m.plain = m.plain || string(key) != "extra_content"
		m.keeps = m.keeps || string(key) == "reasoning_content"
		switch {
		case kind == rawjson.String:
			if text := c.Inside(); text != "" {
				m.thinking = perigee.Escaped(text)
			}
		case string(key) == "reasoning_details" || string(key) == "extra_content":
			m.seals(c)
		}
	case kind != rawjson.Array:
	case string(key) == "tool_calls":
		for range c.Array() {
			m.call(c)
		}
	case string(key) == "content":
		for range c.Array() {
			m.contentPart(c)
		}
	}
}

// sealedMembers are the members of reasoning_details and of extra_content that only the provider can
// have made.
var sealedMembers = []string{"data", "signature", "thought_signature", "reasoning_signature"}

// seals reads the details of reasoning, or the extra content of providers.
func (m *modelMessage) seals(c *rawjson.Cursor) {
	element := func() {
		if c.Kind() != rawjson.Object {
			return
		}
		for key := range c.Object() {
			if c.Kind() == rawjson.String && slices.Contains(sealedMembers, string(key)) {
				m.sealed = append(m.sealed, c.String())
			}
		}
	}
	switch c.Kind() {
	case rawjson.Array:
		for range c.Array() {
			element()
		}
	case rawjson.Object:
		for range c.Object() {
			element()
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
				id = c.StringAlias()
			case "extra_content":
				m.reasons = true
				m.seals(c)
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

// A remover collects the edits that remove the reasoning and the signatures of a message.
type remover struct {
	body  []byte
	at    int // the offset of the message
	edits []rawjson.Edit
}

// removal returns the Removal of the object or list before the cursor.
func (r *remover) removal(c *rawjson.Cursor) rawjson.Removal {
	return rawjson.Removal{Text: r.body, End: r.at + c.Offset() + 1}
}

func (r *remover) message(c *rawjson.Cursor) {
	members := r.removal(c)
	for key := range c.Object() {
		start := r.at + c.Offset()
		if isReasoningMember(key) {
			c.Skip()
			r.edits = members.Drop(r.edits, r.at+c.Offset())
			continue
		}
		members.Keep(r.edits, start)
		switch kind := c.Kind(); {
		case string(key) == "tool_calls" && kind == rawjson.Array:
			for range c.Array() {
				r.call(c)
			}
		case string(key) == "content" && kind == rawjson.Array:
			r.content(c)
		default:
			c.Skip()
		}
		members.End = r.at + c.Offset()
	}
}

// call removes the signature of a tool call.
func (r *remover) call(c *rawjson.Cursor) {
	if c.Kind() != rawjson.Object {
		c.Skip()
		return
	}
	members := r.removal(c)
	for key := range c.Object() {
		start, signed := r.at+c.Offset(), string(key) == "extra_content"
		c.Skip()
		if signed {
			r.edits = members.Drop(r.edits, r.at+c.Offset())
		} else {
			members.Keep(r.edits, start)
			members.End = r.at + c.Offset()
		}
	}
}

// content removes the thinking of a content that is a list. One that loses all of its parts becomes an
// empty text.
func (r *remover) content(c *rawjson.Cursor) {
	before, start, parts := len(r.edits), r.at+c.Offset(), r.removal(c)
	left, dropped := 0, 0
	for range c.Array() {
		at := r.at + c.Offset()
		if part := c.Raw(); isThinkingPart(part) {
			r.edits = parts.Drop(r.edits, r.at+c.Offset())
			dropped++
			continue
		}
		parts.Keep(r.edits, at)
		parts.End = r.at + c.Offset()
		left++
	}
	if left == 0 && dropped > 0 {
		r.edits = append(r.edits[:before], rawjson.Edit{Start: start, End: r.at + c.Offset(), New: []byte(`""`)})
	}
}
