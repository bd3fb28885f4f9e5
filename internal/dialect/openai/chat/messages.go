package openai

import (
	"perigee"
	"perigee/internal/rawjson"
)

// A chatMessage is one of messages while it is read: role and content may come in any order.
type chatMessage struct {
	role      string
	name      string
	text      string         // content that is a string
	quoted    []byte         // the same of a tool's answer, or before the role is known, as it stands in the body
	parts     []perigee.Part // content that is a list
	images    []perigee.Part // of an answer that came from here
	refusal   string
	calls     []perigee.Part
	answers   []byte // tool_call_id
	reasoning string
	seals     chatSeals
}

// chatSeals are the provider's signatures over an assistant message.
type chatSeals struct {
	text      string // extra_content.google.thought_signature
	reasoning string // extra_content.google.reasoning_signature
}

// message reads the i-th of messages and adds it to the conversation.
func (d *chatDecoder) message(i int) {
	m := chatMessage{calls: d.calls[:0]}
	for key := range d.c.Object() {
		if d.c.Kind() != rawjson.Null {
			d.messageField(i, string(key), &m)
		}
	}
	if m.name != "" && m.role != "function" && m.role != "tool" {
		d.notes.dropped("messages[].name")
	}
	if len(m.calls) > 0 && m.role != "assistant" {
		d.notes.dropped("messages[].tool_calls of role " + brief(m.role))
	}
	switch m.role {
	case "system", "developer":
		d.talk.instruct(&m)
	case "user":
		d.talk.user(&m)
	case "assistant":
		d.talk.assistant(&m)
	case "tool", "function":
		d.talk.result(&m)
	default:
		d.refuse("messages[%d].role: want system, developer, user, assistant or tool, found %q", i, brief(m.role))
	}
	d.talk.seen++
	d.calls = m.calls
}

func (d *chatDecoder) messageField(i int, name string, m *chatMessage) {
	switch name {
	case "role":
		m.role = readRole(d.c)
	case "content":
		d.content(i, m)
	case "name":
		m.name = d.c.String()
	case "tool_calls":
		for j := range d.c.Array() {
			d.toolCall(i, j, m)
		}
	case "function_call":
		call := d.calledFunction("messages[].function_call.")
		m.calls = append(m.calls, perigee.Part{Kind: perigee.PartCall, Call: call})
	case "tool_call_id":
		m.answers = d.c.Bytes()
	case "reasoning_content", "reasoning":
		if text := d.c.String(); text != "" {
			m.reasoning = text
		}
	case "extra_content":
		m.seals = d.seals("messages[].")
	case "refusal":
		if m.refusal = d.c.String(); m.refusal != "" {
			d.notes.mapped("messages[].refusal")
		}
	case "images":
		for j := range d.c.Array() {
			m.images = d.part(m.images, func() string { return place(i, "images", j) })
		}
	case "annotations": // the sources of an earlier answer, which the model knows
	default:
		d.notes.unknown("messages[].", []byte(name))
	}
}

// readRole reads a role without making a string of its own for each message.
func readRole(c *rawjson.Cursor) string {
	raw := c.Bytes()
	for _, role := range [...]string{"user", "assistant", "tool", "system", "developer", "function"} {
		if string(raw) == role {
			return role
		}
	}
	return string(raw)
}

// seals reads extra_content, where the provider's own OpenAI-compatible API keeps signatures.
func (d *chatDecoder) seals(path string) chatSeals {
	var s chatSeals
	for key := range d.c.Object() {
		if string(key) != "google" {
			d.notes.unknown(path+"extra_content.", key)
			continue
		}
		for key := range d.c.Object() {
			switch string(key) {
			case "thought_signature":
				s.text = d.c.String()
			case "reasoning_signature":
				s.reasoning = d.c.String()
			default:
				d.notes.unknown(path+"extra_content.google.", key)
			}
		}
	}
	return s
}

// toolCall reads the j-th of tool_calls of the i-th message.
func (d *chatDecoder) toolCall(i, j int, m *chatMessage) {
	part := perigee.Part{Kind: perigee.PartCall}
	id := ""
	for key := range d.c.Object() {
		if d.c.Kind() == rawjson.Null {
			continue
		}
		switch string(key) {
		case "id":
			id = d.c.String()
		case "function":
			part.Call = d.calledFunction("messages[].tool_calls[].function.")
		case "custom":
			part.Call = d.calledCustom()
		case "extra_content":
			part.Signature = d.seals("messages[].tool_calls[].").text
		case "type", "index": // the members tell which type; the index is left over from a stream
		default:
			d.notes.unknown("messages[].tool_calls[].", key)
		}
	}
	if part.Call == nil {
		d.refuse("%s: want a member function or custom", place(i, "tool_calls", j))
		return
	}
	part.Call.ID = id
	m.calls = append(m.calls, part)
}

func (d *chatDecoder) calledFunction(path string) *perigee.FunctionCall {
	call := &perigee.FunctionCall{Args: emptyArgs}
	for key := range d.c.Object() {
		switch string(key) {
		case "name":
			call.Name = d.c.String()
		case "arguments":
			switch d.c.Kind() {
			case rawjson.Object: // some clients forget to make a string of it
				call.Args = d.c.Raw()
			case rawjson.Null:
			default:
				var repaired bool
				if call.Args, repaired = arguments(d.c.Bytes()); repaired {
					d.notes.repaired(path + "arguments")
				}
			}
		default:
			d.notes.unknown(path, key)
		}
	}
	return call
}

// calledCustom reads the call of a custom tool, which is a function with one parameter to the model.
func (d *chatDecoder) calledCustom() *perigee.FunctionCall {
	call := &perigee.FunctionCall{}
	input := []byte(`""`)
	for key := range d.c.Object() {
		switch string(key) {
		case "name":
			call.Name = d.c.String()
		case "input":
			if d.c.Kind() != rawjson.String {
				d.c.Bytes() // a type error
				continue
			}
			input = d.c.Raw()
		default:
			d.notes.unknown("messages[].tool_calls[].custom.", key)
		}
	}
	call.Args = wrap("input", input)
	return call
}
