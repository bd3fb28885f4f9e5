package conversation

import (
	"crypto/sha256"
	"encoding/binary"
	"strings"

	"perigee"
	"perigee/internal/adapt"
)

// A chat is a request as text: the instructions, the messages so far, and the one to answer. It
// shares no memory with the request.
type chat struct {
	key    string // the name of the client's key
	model  string
	system string
	turns  []turn
	last   string
}

// A turn is the text of one role. Several messages of one role in a row are one turn.
type turn struct {
	role string
	text string
}

// compose converts a prompt to a chat, with a note for each part that a chat cannot carry.
// Thinking of earlier turns is omitted, as providers do.
func compose(req *perigee.Request, prompt *perigee.Prompt) (*chat, []perigee.Note, error) {
	var n perigee.Notes
	noteRequest(&n, prompt)
	c := &chat{key: req.Client.Key, model: req.Model}
	c.system = instructions(&n, prompt)
	c.addTurns(&n, prompt.Contents)
	if len(c.turns) == 0 {
		return nil, nil, perigee.Errorf(perigee.ClassInvalid, "the request has no text").WithHint("add a message with a text")
	}
	c.last = "Continue your last message where it ends."
	if end := len(c.turns) - 1; c.turns[end].role == perigee.RoleUser {
		c.last, c.turns = c.turns[end].text, c.turns[:end]
	} else {
		n.Mapped("prefill to a message")
	}
	return c, n.List(), nil
}

// instructions returns the text of the system instruction and of those inside the conversation.
func instructions(n *perigee.Notes, p *perigee.Prompt) string {
	var texts []string
	if p.System != nil {
		texts = append(texts, textOf(n, p.System.Parts))
	}
	adapt.NoteInstructions(n, p)
	for i := range p.Contents {
		if p.Contents[i].Instructs() {
			texts = append(texts, textOf(n, p.Contents[i].Parts))
		}
	}
	return strings.Join(texts, "\n\n")
}

// addTurns appends messages. Consecutive messages of one role are joined at once, because adding
// them one by one would copy the earlier text each time.
func (c *chat) addTurns(n *perigee.Notes, contents []perigee.Content) {
	side := ""
	var texts []string
	for i := range contents {
		if contents[i].Instructs() {
			continue
		}
		role := perigee.RoleUser
		if contents[i].Role == perigee.RoleModel {
			role = perigee.RoleModel
		}
		text := strings.TrimSpace(textOf(n, contents[i].Parts))
		if text == "" {
			continue
		}
		if role != side {
			c.addTurn(side, texts...)
			side, texts = role, texts[:0]
		}
		texts = append(texts, text)
	}
	c.addTurn(side, texts...)
}

// addTurn appends texts to the last turn if that has the same role, and adds a turn otherwise.
func (c *chat) addTurn(role string, texts ...string) {
	if text := strings.TrimSpace(strings.Join(texts, "\n\n")); text != "" {
		c.turns = append(c.turns, turn{role, text})
	}
}

// text returns the whole chat as one message, for a new conversation.
func (c *chat) text() string {
	if c.system == "" && len(c.turns) == 0 {
		return c.last
	}
	var b strings.Builder
	block := func(tag, text string) {
		b.WriteString("<" + tag + ">\n" + text + "\n</" + tag + ">\n")
	}
	if c.system != "" {
		b.WriteString("Follow these instructions:\n\n")
		block("instructions", c.system)
		b.WriteByte('\n')
	}
	if len(c.turns) > 0 {
		b.WriteString("This is the conversation so far:\n\n")
		for _, s := range c.turns {
			tag := "user"
			if s.role == perigee.RoleModel {
				tag = "assistant"
			}
			block(tag, s.text)
		}
		b.WriteByte('\n')
	}
	b.WriteString("Answer this message:\n\n")
	b.WriteString(c.last)
	return b.String()
}

// history identifies the turns before the last message.
func (c *chat) history() historyKey { return c.hash(c.turns) }

// after identifies the history after an answer to the last message.
func (c *chat) after(answer string) historyKey {
	d := chat{turns: append([]turn(nil), c.turns...)}
	d.addTurn(perigee.RoleUser, c.last)
	d.addTurn(perigee.RoleModel, answer)
	return c.hash(d.turns)
}

func (c *chat) hash(turns []turn) historyKey {
	h := sha256.New()
	write := func(text string) {
		_, _ = h.Write(binary.AppendUvarint(nil, uint64(len(text))))
		_, _ = h.Write([]byte(text))
	}
	write(c.key)
	write(c.model)
	write(c.system)
	for _, s := range turns {
		write(s.role)
		write(s.text)
	}
	return historyKey(h.Sum(nil))
}
