package conversation

import (
	"crypto/sha256"
	"encoding/binary"
	"strings"

	"perigee"
)

// A chat is a request as text: the instructions, the messages so far, and the one to answer. It
// shares no memory with the request.
type chat struct {
	key    string // the name of the client's key
	model  string
	system string
	turns  []said
	last   string
}

// said is what one side said before the other did. Several messages in a row are one.
type said struct {
	role string
	text string
}

// compose makes a chat of a prompt, and notes what it cannot carry. Thinking of earlier turns is
// omitted, as providers do.
func compose(req *perigee.Request, prompt *perigee.Prompt) (*chat, []perigee.Note, error) {
	var n perigee.Notes
	noteRequest(&n, prompt)
	c := &chat{key: req.Client.Key, model: req.Model}
	if prompt.System != nil {
		c.system = textOf(&n, prompt.System.Parts)
	}
	c.sayAll(&n, prompt.Contents)
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

// sayAll appends messages. Those of one side in a row are put together at once: one after the
// other, each would copy all before it.
func (c *chat) sayAll(n *perigee.Notes, contents []perigee.Content) {
	side := ""
	var texts []string
	for i := range contents {
		role := perigee.RoleUser
		if contents[i].Role == perigee.RoleModel {
			role = perigee.RoleModel
		}
		text := strings.TrimSpace(textOf(n, contents[i].Parts))
		if text == "" {
			continue
		}
		if role != side {
			c.say(side, texts...)
			side, texts = role, texts[:0]
		}
		texts = append(texts, text)
	}
	c.say(side, texts...)
}

// say appends what a side said after the other did.
func (c *chat) say(role string, texts ...string) {
	if text := strings.TrimSpace(strings.Join(texts, "\n\n")); text != "" {
		c.turns = append(c.turns, said{role, text})
	}
}

// text is everything in one message, for a new conversation.
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

// history identifies what was said before the last message.
func (c *chat) history() historyKey { return c.hash(c.turns) }

// after identifies the history after an answer to the last message.
func (c *chat) after(answer string) historyKey {
	d := chat{turns: append([]said(nil), c.turns...)}
	d.say(perigee.RoleUser, c.last)
	d.say(perigee.RoleModel, answer)
	return c.hash(d.turns)
}

func (c *chat) hash(turns []said) historyKey {
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
