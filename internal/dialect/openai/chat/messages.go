package chat

import (
	"fmt"

	"perigee"
	"perigee/internal/dialect"
	"perigee/internal/dialect/openai"
	"perigee/internal/lib/rawjson"
)

// A message is one of messages while it is read: role and content may come in any order.
type message struct {
	role       string
	name       string
	quoted     []byte         // content that is a string, as JSON
	parts      []perigee.Part // content that is a list
	images     []perigee.Part // of an answer that came from here
	refusal    string         // escaped
	calls      []perigee.Part
	answers    []byte // tool_call_id
	reasoning  string // escaped
	signatures signatures
	cache      *perigee.CacheMark
}

// signatures are the provider's signatures over an assistant message.
type signatures struct {
	text      string // extra_content.google.thought_signature
	reasoning string // extra_content.google.reasoning_signature
}

func (d *decoder) messages() {
	for i := range d.c.Array() {
		d.turns.Contents = rawjson.Reserve(d.c, d.turns.Contents)
		d.message(i)
	}
	d.endConversation()
}

// opening reads the messages of a body up to the model's first answer after another one, and reports
// whether there was one. Then the rest is not even skipped.
func (d *decoder) opening() (whole bool) {
	for key := range d.c.Object() {
		switch name := string(key); {
		case d.c.Kind() == rawjson.Null:
		case name == "extra_body" && d.opening(), name == "messages" && d.openingMessages():
			return true
		}
	}
	return false
}

func (d *decoder) openingMessages() (whole bool) {
	asked := false
	for i := range d.c.Array() {
		d.message(i)
		n := len(d.turns.Contents)
		answered := n > 0 && d.turns.Contents[n-1].Role == perigee.RoleModel
		if answered && asked {
			return true
		}
		asked = asked || n > 0 && !answered
	}
	return false
}

// media reads messages for the addresses of media that no server may get.
func (d *decoder) media() {
	if !dialect.MayHaveMedia(d.index) {
		return
	}
	if path, err := dialect.CheckParts(d.c); err != nil {
		d.forbid("messages"+path, "%v", err)
	}
}

// message reads the i-th of messages and adds it to the conversation.
func (d *decoder) message(i int) {
	m := message{calls: d.calls[:0]}
	for key := range d.c.Object() {
		if d.c.Kind() != rawjson.Null {
			d.messageField(i, string(key), &m)
		}
	}
	if len(m.calls) > 0 && m.role != "assistant" {
		d.notes.Dropped("messages[].tool_calls of role " + openai.Brief(m.role))
	}
	switch m.role {
	case "system", "developer":
		d.instruct(&m)
	case "user":
		d.user(&m)
	case "assistant":
		d.assistant(&m)
	case "tool", "function":
		d.result(&m)
	default:
		d.refuse(fmt.Sprintf("messages[%d].role", i), "want system, developer, user, assistant or tool, found %q", openai.Brief(m.role))
	}
	d.seen++
	d.calls = m.calls
}

func (d *decoder) messageField(i int, name string, m *message) {
	switch name {
	case "role":
		m.role = readRole(d.c)
	case "content":
		d.content(i, m)
	case "name":
		m.name = d.c.String()
	case "tool_calls":
		for j := range d.c.Array() {
			m.calls = rawjson.Reserve(d.c, m.calls)
			d.toolCall(i, j, m)
		}
	case "function_call":
		call := d.calledFunction("messages[].function_call.")
		m.calls = append(m.calls, perigee.Part{Kind: perigee.PartCall, Call: call})
	case "tool_call_id":
		m.answers = d.c.Bytes()
	case "reasoning_content", "reasoning":
		if text := d.c.Inside(); text != "" {
			m.reasoning = text
		}
	case "reasoning_details": // of the router of several vendors' models, which alone reads them
		if d.c.Kind() == rawjson.Array {
			for range d.c.Array() {
				d.notes.Dropped(perigee.OtherReasoning.Subject)
			}
		}
	case "extra_content":
		m.signatures = d.signatures("messages[].")
	case "refusal":
		if m.refusal = d.c.Inside(); m.refusal != "" {
			d.notes.Mapped("messages[].refusal")
		}
	case "images":
		for j := range d.c.Array() {
			m.images = d.part(m.images, func() string { return place(i, "images", j) })
		}
	case "annotations": // the sources of an earlier answer, which the model does not need
	case "cache_control":
		m.cache = dialect.ReadCacheMark(d.c)
	default:
		d.notes.Unknown("messages[].", []byte(name))
	}
}

// readRole reads a role. It does not allocate for the roles of the API.
func readRole(c *rawjson.Cursor) string {
	raw := c.Bytes()
	for _, role := range [...]string{"user", "assistant", "tool", "system", "developer", "function"} {
		if string(raw) == role {
			return role
		}
	}
	return string(raw)
}

// signatures reads extra_content, where the provider's own OpenAI-compatible API keeps signatures.
func (d *decoder) signatures(path string) signatures {
	var s signatures
	for key := range d.c.Object() {
		if string(key) != "google" {
			d.notes.Unknown(path+"extra_content.", key)
			continue
		}
		d.c.Read(d.notes.Rest(path+"extra_content.google."), "thought_signature", &s.text, "reasoning_signature", &s.reasoning)
	}
	return s
}

// toolCall reads the j-th of tool_calls of the i-th message.
func (d *decoder) toolCall(i, j int, m *message) {
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
			part.Signature = d.signatures("messages[].tool_calls[].").text
		case "type", "index": // the other members determine the type; the index comes from a stream
		default:
			d.notes.Unknown("messages[].tool_calls[].", key)
		}
	}
	if part.Call == nil {
		d.refuse(place(i, "tool_calls", j), "want a member function or custom")
		return
	}
	part.Call.ID = id
	m.calls = append(m.calls, part)
}

func (d *decoder) calledFunction(path string) *perigee.FunctionCall {
	call := &perigee.FunctionCall{Args: openai.EmptyArgs}
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
				if call.Args, repaired = openai.Arguments(d.c.Bytes()); repaired {
					d.notes.Repaired(path + "arguments")
				}
			}
		default:
			d.notes.Unknown(path, key)
		}
	}
	return call
}

// calledCustom reads the call of a custom tool, which is a function with one parameter to the
// model.
func (d *decoder) calledCustom() *perigee.FunctionCall {
	call := &perigee.FunctionCall{}
	input := []byte(`""`)
	d.c.Read(d.notes.Rest("messages[].tool_calls[].custom."), "name", &call.Name, "input", func() {
		if d.c.Kind() == rawjson.String {
			input = d.c.Raw()
		} else {
			d.c.Bytes() // a type error
		}
	})
	call.Args = openai.Wrap("input", input)
	return call
}
