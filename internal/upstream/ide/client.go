package ide

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"

	"perigee"
	"perigee/internal/langserver/lsclient"
	"perigee/internal/langserver/trajectory"
	"perigee/internal/lib/lru"
	"perigee/internal/mcp/ask"
	"perigee/internal/upstream/conversation"
)

// A client is the conversation.Client of the upstream: each turn of a conversation is an ask. A
// conversation gets its own ID before a window is chosen, so that nothing is started for a prompt
// that no window accepts.
type client struct {
	u *Upstream

	mu   sync.Mutex
	open lru.Map[string, *chat]
}

// A chat is a conversation of the upstream.
type chat struct {
	prompt       string // to be sent
	conversation string // ID in the IDE; empty if not started
}

// maxChats is more than the upstream keeps and has open.
const maxChats = 1024

func newClient(u *Upstream) *client {
	c := &client{u: u}
	c.open.MaxEntries = maxChats
	return c
}

// Start creates a conversation.
func (c *client) Start(context.Context, string) (string, error) {
	id := lsclient.NewID()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open.Put(id, &chat{})
	return id, nil
}

// Send keeps a message for Follow.
func (c *client) Send(_ context.Context, id string, m conversation.Message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	t, ok := c.open.Get(id)
	if !ok {
		return lost(perigee.Errorf(perigee.ClassUnavailable, "the conversation is no longer known"))
	}
	t.prompt = m.Text
	return nil
}

// Follow sends the prompt, and yields the events of the answer.
func (c *client) Follow(ctx context.Context, id string, cursor *trajectory.Cursor) iter.Seq2[trajectory.Event, error] {
	return func(yield func(trajectory.Event, error) bool) {
		c.mu.Lock()
		t, ok := c.open.Get(id)
		c.mu.Unlock()
		if !ok {
			yield(trajectory.Event{}, lost(perigee.Errorf(perigee.ClassUnavailable, "the conversation is no longer known")))
			return
		}
		cursor.First++ // number of the turn, from which the ID of the answer is made
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		r := &report{yield: yield, left: cancel}
		answer, err := c.u.Ask(ctx, ask.Request{Prompt: t.prompt, Conversation: t.conversation}, func(p ask.Progress) { r.text(p.Text) })
		switch {
		case r.stopped:
		case err != nil:
			yield(trajectory.Event{}, refusal(err, t.conversation != ""))
		case ctx.Err() != nil:
			yield(trajectory.Event{}, perigee.AsError(ctx.Err()))
		default:
			t.conversation = answer.Conversation
			r.end(answer)
		}
	}
}

// refusal returns the error for a prompt that was not handed over. If the conversation no longer
// exists, the upstream starts another one. The error does not name the open directories, because
// clients of the upstream must not see them.
func refusal(err error, continued bool) error {
	e := *perigee.AsError(err)
	if errors.Is(err, errWindow) {
		what, _, _ := strings.Cut(e.Message, ":")
		e.Class, e.Public = perigee.ClassUnavailable, what+"; set workspace: of this upstream to the directory whose window is to answer"
	}
	if continued && (e.Class == perigee.ClassNotFound || e.Class == perigee.ClassUnavailable) {
		return lost(&e)
	}
	return &e
}

func lost(e *perigee.Error) error {
	l := *e
	l.Class, l.Cause = perigee.ClassUnavailable, fmt.Errorf("%w: %w", conversation.ErrLost, e)
	return &l
}

// Cancel does nothing: an ask that ends before the agent does stops the agent.
func (c *client) Cancel(context.Context, string) error { return nil }

// Models lists the only model.
func (c *client) Models(context.Context) ([]perigee.Model, error) {
	return []perigee.Model{{ID: Model, DisplayName: "Antigravity agent", Description: "the agent of the open Antigravity window",
		Methods: []string{"generateContent", "countTokens"}}}, nil
}

// ModelID returns the only model.
func (c *client) ModelID(_ context.Context, name string) (string, error) {
	if !strings.EqualFold(name, Model) {
		return "", perigee.Errorf(perigee.ClassNotFound, "the upstream %s has no model %s", c.u.opts.Name, perigee.Clip(name, 60)).
			WithHint("its only model is %s", Model)
	}
	return Model, nil
}

// A report converts progress to events of one step.
type report struct {
	yield   func(trajectory.Event, error) bool
	left    func() // called when the caller has left
	stopped bool
	sent    string
}

func (r *report) event(e trajectory.Event) {
	if !r.stopped && !r.yield(e, nil) {
		r.stopped = true
		r.left()
	}
}

// text reports the whole text so far.
func (r *report) text(text string) {
	if text == r.sent {
		return
	}
	kind, more := trajectory.KindText, strings.TrimPrefix(text, r.sent)
	if !strings.HasPrefix(text, r.sent) {
		kind, more = trajectory.KindTextReplaced, text
	}
	r.sent = text
	r.event(trajectory.Event{Kind: kind, Text: more})
}

// end reports the end of the answer.
func (r *report) end(a ask.Answer) {
	r.text(a.Text)
	if u := a.Usage; u != nil {
		count := func(n int64) uint64 { return uint64(max(n, 0)) }
		r.event(trajectory.Event{Kind: trajectory.KindUsage, Usage: trajectory.Usage{
			Input: count(u.Input - u.Cached), CacheRead: count(u.Cached), Output: count(u.Output), Thinking: count(u.Thinking)}})
	}
	done := trajectory.Event{Kind: trajectory.KindDone, Reason: trajectory.ReasonDone}
	switch a.Status {
	case ask.Waiting:
		done.Reason = trajectory.ReasonWaiting
		r.event(trajectory.Event{Kind: trajectory.KindWaiting, Waiting: &trajectory.Waiting{Subject: a.WaitingFor}})
	case ask.Cancelled:
		done.Reason = trajectory.ReasonCancelled
	case ask.Timeout:
		done.Reason = trajectory.ReasonTimeout
	case ask.Failed:
		done.Reason = trajectory.ReasonError
		r.event(trajectory.Event{Kind: trajectory.KindError, Error: &perigee.Error{Class: a.Error.Class, Message: a.Error.Message, Hint: a.Error.Hint}})
	}
	r.event(done)
}
