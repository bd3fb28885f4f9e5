package ask

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"strings"
	"time"

	"perigee"
)

// keepTime is how long a conversation is kept after its last prompt.
const keepTime = 24 * time.Hour

// saveTime bounds the time in which a conversation is saved, also after the ask has ended.
const saveTime = 5 * time.Second

// A conversation has the earlier messages.
type conversation struct {
	asker   *ModelAsker
	id      string
	key     string
	created time.Time
	items   []item
}

// An item is a message of a conversation, in the form of the Responses API.
type item struct {
	Type    string    `json:"type"`
	Role    string    `json:"role"` // user or assistant
	Content []content `json:"content"`
}

type content struct {
	Type string `json:"type"` // input_text or output_text
	Text string `json:"text"`
}

func newItem(role, kind, text string) item {
	return item{Type: "message", Role: role, Content: []content{{kind, text}}}
}

// open reads the conversation of a request, or starts one.
func (a *ModelAsker) open(ctx context.Context, r *Request) (*conversation, error) {
	c := &conversation{asker: a, key: r.Client.Key, created: a.opts.Now()}
	if r.Conversation == "" {
		c.id = ModelConversation + strings.ToLower(rand.Text())
		return c, nil
	}
	c.id = r.Conversation
	stored, err := a.opts.Store.Response(ctx, c.key, c.id)
	if err != nil {
		if e := perigee.AsError(err); e.Class != perigee.ClassNotFound {
			return nil, e
		}
		return nil, c.unknown()
	}
	c.created = stored.Created
	for _, list := range []json.RawMessage{stored.Input, stored.Output} {
		var items []item
		if err := json.Unmarshal(list, &items); err != nil {
			return nil, perigee.Errorf(perigee.ClassInternal, "conversation %s cannot be read: %w", perigee.Clip(c.id, 100), err).WithHint("leave conversation out to start a new one")
		}
		c.items = append(c.items, items...)
	}
	return c, nil
}

func (c *conversation) unknown() error {
	return perigee.Errorf(perigee.ClassNotFound, "there is no conversation %s", perigee.Clip(c.id, 100)).
		WithHint("leave conversation out to start a new one; conversations with models are kept for 24 hours, for the key that began them")
}

// prompt returns the conversation with another message of the user.
func (c *conversation) prompt(text string) *perigee.Prompt {
	p := &perigee.Prompt{}
	add := func(role, text string) {
		p.Contents = append(p.Contents, perigee.Content{Role: role, Parts: []perigee.Part{{Kind: perigee.PartText, Text: perigee.Plain(text)}}})
	}
	for _, i := range c.items {
		role := perigee.RoleUser
		if i.Role == "assistant" {
			role = perigee.RoleModel
		}
		for _, part := range i.Content {
			add(role, part.Text)
		}
	}
	add(perigee.RoleUser, text)
	return p
}

// save stores the conversation with the new prompt and answer, and returns its ID, or "" if it is
// not kept.
func (c *conversation) save(ctx context.Context, prompt, answer string) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTime)
	defer cancel()
	input, err := json.Marshal(append(c.items, newItem("user", "input_text", prompt)))
	output := []byte("[]")
	if err == nil && answer != "" {
		output, err = json.Marshal([]item{newItem("assistant", "output_text", answer)})
	}
	if err == nil {
		response, _ := json.Marshal(map[string]any{"id": c.id, "object": "response", "status": "completed", "created_at": c.created.Unix(), "output": json.RawMessage(output)})
		err = c.asker.opts.Store.SaveResponse(ctx, &perigee.StoredResponse{
			ID: c.id, Key: c.key, Created: c.created, Expires: c.asker.opts.Now().Add(keepTime), Input: input, Output: output, Response: response,
		})
	}
	if err != nil {
		c.asker.opts.Logger.Warn("conversation not kept", "conversation", c.id, "error", err)
		return ""
	}
	return c.id
}
