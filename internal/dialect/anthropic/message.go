package anthropic

import (
	"fmt"
	"math"
	"slices"

	"perigee"
	"perigee/internal/rawjson"
)

// A place is the block that is being read, for errors.
type place struct{ message, block int }

func (p place) field(name string) string {
	return fmt.Sprintf("messages[%d].content[%d].%s", p.message, p.block, name)
}

// A message is one element of messages while it is read: its role may stand behind its content.
type message struct {
	role    []byte
	parts   []perigee.Part
	results []result
	seal    string // waits for the next call
	calls   bool
	clears  bool // a system message that ends with the next message of the user
}

// A turn is what the user says between two turns of the model. Results of tools come first, in the order of
// the calls, because the provider wants all of them right behind the calls.
type turn struct {
	results []result
	rest    []perigee.Part
}

// A later is an instruction that came inside the conversation.
type later struct {
	part    perigee.Part
	message int
	clears  bool // at the next message of the user
}

// reusedParts is up to how many parts of a message are copied, so that their memory serves the next message.
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
				d.notes.dropped("messages[].", key)
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
		m.parts = appendText(m.parts, c.String())
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

// userMessage gathers the messages after a turn with calls into one content, since their results may come one
// by one. Everything else stays as it came.
func (d *decoder) userMessage(m *message) {
	if m.calls {
		d.fail(invalid(fmt.Sprintf("messages[%d]: tool_use blocks can only be in assistant messages", d.at.message)))
	}
	d.lastUser = d.at.message
	t := &d.turn
	if t.results == nil {
		t.results = m.results
	} else {
		t.results = append(t.results, m.results...)
	}
	if t.rest == nil {
		t.rest = m.parts
	} else {
		t.rest = append(t.rest, m.parts...)
	}
	if !d.open && len(t.results) == 0 {
		d.flush()
	}
}

// flush ends the user's turn.
func (d *decoder) flush() {
	t := &d.turn
	byCall := func(a, b result) int { return a.order - b.order }
	if !slices.IsSortedFunc(t.results, byCall) {
		slices.SortStableFunc(t.results, byCall)
	}
	parts := t.rest
	if len(t.results) > 0 {
		parts = make([]perigee.Part, 0, len(t.results)+len(t.rest))
		for i := range t.results {
			parts = append(parts, t.results[i].part)
		}
		parts = append(parts, t.rest...)
	}
	d.addContent(perigee.RoleUser, parts)
	*t = turn{}
}

func (d *decoder) modelMessage(m *message) {
	if len(m.results) > 0 {
		d.fail(invalid(fmt.Sprintf("messages[%d]: tool_result blocks can only be in user messages", d.at.message)))
		return
	}
	d.flush()
	d.open = m.calls
	d.addContent(perigee.RoleModel, m.parts)
}

func (d *decoder) addContent(role string, parts []perigee.Part) {
	if len(parts) > 0 {
		d.prompt.Contents = append(d.prompt.Contents, perigee.Content{Role: role, Parts: parts})
	}
}

// systemMessage adds to the system prompt: the provider knows no instructions inside a conversation, and as
// words of the user they would lose their weight.
func (d *decoder) systemMessage(m *message) {
	for _, p := range m.parts {
		if p.Kind != perigee.PartText || p.Thought {
			d.notes.add(perigee.NoteDropped, "blocks of system messages that are not text")
			continue
		}
		d.later = append(d.later, later{part: p, message: d.at.message, clears: m.clears})
	}
}

// calls are all calls of the conversation so far, to find what a result answers.
type calls struct {
	list  []*perigee.FunctionCall
	next  int            // the call that is probably answered next
	index map[string]int // by id, as far as it was needed
	known int            // so many of list are in index
}

// unanswered is the order of a result whose call is not in the conversation.
const unanswered = math.MaxInt

// find returns the place of a call and its name. A result for an unknown call goes by its id.
func (s *calls) find(id string) (order int, name string) {
	if s.next < len(s.list) && s.list[s.next].ID == id {
		s.next++
		return s.next - 1, s.list[s.next-1].Name
	}
	if s.index == nil {
		s.index = make(map[string]int, len(s.list))
	}
	for ; s.known < len(s.list); s.known++ {
		s.index[s.list[s.known].ID] = s.known
	}
	i, ok := s.index[id]
	if !ok {
		return unanswered, id
	}
	s.next = i + 1
	return i, s.list[i].Name
}
