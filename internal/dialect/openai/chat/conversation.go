package chat

import (
	"encoding/json"
	"strings"

	"perigee"
	"perigee/internal/lib/rawjson"
)

// The methods in this file turn messages, in order, into contents. The two forms differ most around
// tools: here each result is a message of its own, there the results of a turn are one content,
// right after the calls and in their order.

// contentParts returns the content of a message as parts, with capacity for more of them.
func (m *message) contentParts(more int) []perigee.Part {
	parts := m.parts
	if parts == nil {
		parts = make([]perigee.Part, 0, 1+more)
		if text := rawjson.Inside(m.quoted); text != "" {
			parts = append(parts, perigee.Part{Text: perigee.Escaped(text)})
		}
	}
	if n := len(parts); m.cache != nil && n > 0 {
		parts[n-1].Cache = m.cache
	}
	return parts
}

// mark returns the cache mark of the message or of its last part.
func (m *message) mark() *perigee.CacheMark {
	if n := len(m.parts); m.cache == nil && n > 0 {
		return m.parts[n-1].Cache
	}
	return m.cache
}

// instruct adds a system message: to the system instruction, or to the conversation if that has
// begun.
func (d *decoder) instruct(m *message) {
	for _, part := range m.contentParts(0) {
		switch {
		case part.Kind != perigee.PartText:
			d.notes.Dropped("messages[].content[] of role " + m.role + " that is not text")
		case d.turns.Started():
			d.turns.InstructionPart(m.role, part)
		case d.prompt.System == nil:
			d.prompt.System = &perigee.Content{Parts: []perigee.Part{part}}
		default:
			d.prompt.System.Parts = append(d.prompt.System.Parts, part)
		}
	}
}

// user adds a message of the user.
func (d *decoder) user(m *message) {
	if parts := m.contentParts(0); len(parts) > 0 {
		d.turns.User(parts)
		d.nameLast(m)
	}
}

// nameLast gives the content that was added last the name of its participant.
func (d *decoder) nameLast(m *message) {
	if n := len(d.turns.Contents); m.name != "" && n > 0 {
		d.turns.Contents[n-1].Name = m.name
	}
}

// assistant adds a message of the model: its thinking, text and calls.
func (d *decoder) assistant(m *message) {
	parts := m.contentParts(len(m.images) + len(m.calls))
	if m.refusal != "" {
		parts = append(parts, perigee.Part{Text: perigee.Escaped(m.refusal)})
	}
	if m.signatures.text != "" {
		parts = sign(parts, m.signatures.text)
	}
	if m.reasoning != "" {
		thought := perigee.Part{Text: perigee.Escaped(m.reasoning), Thought: true, Signature: m.signatures.reasoning}
		parts = append([]perigee.Part{thought}, parts...)
	}
	parts = append(parts, m.images...)
	parts = append(parts, m.calls...)
	d.turns.Model(parts)
	if len(parts) > 0 {
		d.nameLast(m)
	}
}

// sign sets the signature of the last text. A signature without a text gets an empty one, as in the
// provider's answer.
func sign(parts []perigee.Part, signature string) []perigee.Part {
	for i := len(parts) - 1; i >= 0; i-- {
		if parts[i].Kind == perigee.PartText {
			parts[i].Signature = signature
			return parts
		}
	}
	return append(parts, perigee.Part{Signature: signature})
}

// result adds the result of a tool. The provider would refuse a result without its call, so it
// becomes a text of the user.
func (d *decoder) result(m *message) {
	match := d.turns.Take(m.answers, m.name)
	if match.Call == nil {
		d.notes.Mapped("messages[].tool_call_id without its call")
		text := "Result of the tool call " + strings.TrimSpace(m.name+" "+string(m.answers)) + ":"
		d.turns.User(append([]perigee.Part{{Text: perigee.Plain(text)}}, m.contentParts(0)...))
		return
	}
	if !match.Exact {
		d.notes.Repaired("messages[].tool_call_id")
	}
	response := &perigee.FunctionResponse{ID: match.Call.ID, Name: match.Call.Name, Output: m.quoted}
	if m.quoted == nil {
		response.Output, response.Media = toolOutput(m)
	}
	d.turns.Result(match, response, m.mark())
}

// toolOutput returns the texts of a tool result that is a list as a JSON string, and its other
// parts as media.
func toolOutput(m *message) (output json.RawMessage, media []perigee.Part) {
	size := 0
	for _, part := range m.parts {
		size += part.Text.Size()
	}
	joined := rawjson.NewLineJoiner(size)
	for _, part := range m.parts {
		if part.Kind == perigee.PartText {
			joined.Add(part.Text.Form())
		} else {
			media = append(media, part)
		}
	}
	return joined.JSON(), media
}

// endConversation closes the conversation.
func (d *decoder) endConversation() {
	d.turns.Close()
	d.prompt.Contents = d.turns.Contents
}
