package chat

import (
	"encoding/json"
	"slices"
	"strings"

	"perigee"
	"perigee/internal/dialect/openai"
	"perigee/internal/rawjson"
)

// A talk turns messages, in order, into contents. The two forms differ most around tools: here each result is a
// message of its own, there the results of a turn are one content, right after the calls and in their order.
type talk struct {
	notes  *openai.Notes
	prompt *perigee.Prompt
	seen   int // messages so far
	round  round
}

// said returns the content of a message as parts, with room for more of them.
func (m *message) said(more int) []perigee.Part {
	if m.parts != nil {
		return m.parts
	}
	if m.quoted != nil {
		m.text = rawjson.NewCursor(m.quoted).String()
	}
	parts := make([]perigee.Part, 0, 1+more)
	if m.text != "" {
		parts = append(parts, perigee.Part{Text: m.text})
	}
	return parts
}

// add appends a turn, unless it is empty.
func (t *talk) add(role string, parts []perigee.Part) {
	if len(parts) > 0 {
		t.prompt.Contents = append(t.prompt.Contents, perigee.Content{Role: role, Parts: parts})
	}
}

// instruct adds a system message to the one system instruction there is, wherever it stood.
func (t *talk) instruct(m *message) {
	if len(t.prompt.Contents) > 0 {
		t.notes.Mapped("messages[].role " + m.role + " inside the conversation")
	}
	for _, part := range m.said(0) {
		if part.Kind != perigee.PartText {
			t.notes.Dropped("messages[].content[] of role " + m.role + " that is not text")
			continue
		}
		if t.prompt.System == nil {
			t.prompt.System = &perigee.Content{}
		}
		t.prompt.System.Parts = append(t.prompt.System.Parts, part)
	}
}

func (t *talk) user(m *message) {
	t.round.reserve(t.prompt)
	t.add(perigee.RoleUser, m.said(0))
}

// assistant adds an answer of the model's: what it thought, what it said, what it called.
func (t *talk) assistant(m *message) {
	if t.round.at > 0 {
		t.round.settle(t.prompt, t.notes)
	}
	parts := m.said(len(m.images) + len(m.calls))
	if m.refusal != "" {
		parts = append(parts, perigee.Part{Text: m.refusal})
	}
	if m.seals.text != "" {
		parts = seal(parts, m.seals.text)
	}
	switch {
	case m.reasoning == "":
	case m.seals.reasoning == "": // the provider refuses thoughts that it did not seal, or forgets them
		t.notes.Dropped("messages[].reasoning_content")
	default:
		thought := perigee.Part{Text: m.reasoning, Thought: true, Signature: m.seals.reasoning}
		parts = append([]perigee.Part{thought}, parts...)
	}
	parts = append(parts, m.images...)
	parts = append(parts, m.calls...)
	t.add(perigee.RoleModel, parts)
	t.round.calls = slices.Grow(t.round.calls, len(m.calls))
	for i := range m.calls {
		t.round.calls = append(t.round.calls, m.calls[i].Call)
	}
}

// seal puts a signature on the last text. One that came without text stands on an empty one, as it did when it came.
func seal(parts []perigee.Part, signature string) []perigee.Part {
	for i := len(parts) - 1; i >= 0; i-- {
		if parts[i].Kind == perigee.PartText {
			parts[i].Signature = signature
			return parts
		}
	}
	return append(parts, perigee.Part{Signature: signature})
}

// result adds what a tool answered. A result whose call is not there would end the conversation with an error, so
// it becomes what the user says.
func (t *talk) result(m *message) {
	t.round.reserve(t.prompt)
	i, exact := t.round.find(m.answers, m.name)
	if i < 0 {
		t.notes.Mapped("messages[].tool_call_id without its call")
		text := "Result of the tool call " + strings.TrimSpace(m.name+" "+string(m.answers)) + ":"
		t.add(perigee.RoleUser, append([]perigee.Part{{Text: text}}, m.said(0)...))
		return
	}
	if !exact {
		t.notes.Repaired("messages[].tool_call_id")
	}
	call := t.round.calls[i]
	response := &perigee.FunctionResponse{ID: call.ID, Name: call.Name, Output: m.quoted}
	if m.quoted == nil {
		response.Output, response.Media = toolOutput(m)
	}
	t.round.answer(i, response)
}

// toolOutput writes the texts of a tool's answer that is a list as a JSON string, and returns what is not text beside it.
func toolOutput(m *message) (output json.RawMessage, media []perigee.Part) {
	var texts []string
	for _, part := range m.parts {
		if part.Kind == perigee.PartText {
			texts = append(texts, part.Text)
		} else {
			media = append(media, part)
		}
	}
	return rawjson.AppendString(nil, strings.Join(texts, "\n")), media
}

// end settles what is still open and mends what the provider would refuse: a conversation that the model begins. One of nothing
// but instructions is mended by those who know the provider.
func (t *talk) end() {
	if t.round.at > 0 {
		t.round.settle(t.prompt, t.notes)
	}
	switch p := t.prompt; {
	case len(p.Contents) > 0 && p.Contents[0].Role == perigee.RoleModel:
		t.notes.Repaired("messages that begin with role assistant")
		opening := perigee.Content{Role: perigee.RoleUser, Parts: []perigee.Part{{Text: "(The conversation begins here.)"}}}
		p.Contents = append([]perigee.Content{opening}, p.Contents...)
	}
}
