package anthropic

import (
	"fmt"
	"slices"

	"perigee"
	"perigee/internal/lib/rawjson"
)

// A place is the block that is being read, for errors.
type place struct{ message, block int }

func (p place) field(name string) string {
	return fmt.Sprintf("messages[%d].content[%d].%s", p.message, p.block, name)
}

// A message is one element of messages while it is read: its role may follow its content.
type message struct {
	role      []byte
	parts     []perigee.Part
	results   []result
	signature string // waits for the next call
	calls     bool
	clears    bool // a system message that ends with the next message of the user
}

// reusedParts is up to how many parts of a message are copied, so that their memory serves the next
// message.
const reusedParts = 512

func (d *decoder) message(c *rawjson.Cursor, i int) {
	m := message{parts: d.parts[:0]}
	d.at = place{message: i}
	for key := range c.Object() {
		switch string(key) {
		case "role":
			m.role = c.Bytes()
		case "content":
			d.content(c, &m)
		case "clear_at":
			m.clears = string(c.Bytes()) == "next_user_message"
		default:
			if c.Kind() != rawjson.Null {
				d.notes.Unknown("messages[].", key)
			}
		}
	}
	if d.err == nil && c.Err() == nil {
		if len(m.parts) <= reusedParts {
			d.parts, m.parts = m.parts, slices.Clone(m.parts)
		}
		d.place(&m)
	}
}

func (d *decoder) content(c *rawjson.Cursor, m *message) {
	if c.Kind() == rawjson.String {
		m.parts = appendText(m.parts, perigee.Escaped(c.Inside()))
		return
	}
	for j := range c.Array() {
		if d.err != nil {
			return
		}
		d.at.block = j
		m.parts, m.results = rawjson.Reserve(c, m.parts), rawjson.Reserve(c, m.results)
		d.block(c, m)
	}
}

// place puts a message where its role belongs.
func (d *decoder) place(m *message) {
	switch string(m.role) {
	case "user":
		d.userMessage(m)
	case "assistant":
		d.modelMessage(m)
	case "system":
		d.systemMessage(m)
	default:
		d.fail(invalid(fmt.Sprintf("messages[%d].role: want user, assistant or system, found %q", d.at.message, fieldName(m.role))))
	}
}

// userMessage adds a message of the user, with the results of tools.
func (d *decoder) userMessage(m *message) {
	if m.calls {
		d.fail(invalid(fmt.Sprintf("messages[%d]: tool_use blocks can only be in assistant messages", d.at.message)))
	}
	d.lastUser = d.at.message
	for _, r := range m.results {
		d.turns.Result(r.match, r.response, r.cache)
	}
	d.turns.User(m.parts)
}

func (d *decoder) modelMessage(m *message) {
	if len(m.results) > 0 {
		d.fail(invalid(fmt.Sprintf("messages[%d]: tool_result blocks can only be in user messages", d.at.message)))
		return
	}
	d.turns.Model(m.parts)
}

// systemMessage adds an instruction to the conversation.
func (d *decoder) systemMessage(m *message) {
	for _, p := range m.parts {
		switch {
		case p.Kind != perigee.PartText || p.Thought:
			d.notes.Dropped("blocks of system messages that are not text")
		case m.clears:
			d.passing = append(d.passing, passing{p, d.at.message})
		default:
			d.turns.InstructionPart(perigee.RoleSystem, p)
		}
	}
}

// A passing is an instruction that ends with the next message of the user.
type passing struct {
	part    perigee.Part
	message int
}
