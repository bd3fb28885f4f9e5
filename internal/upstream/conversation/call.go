package conversation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"perigee"
	"perigee/internal/adapt/models"
	"perigee/internal/langserver/trajectory"
	"perigee/internal/lib/wire"
)

// Retries after the server went away, before the client has received anything.
const (
	maxTries   = 3 // of calls with messages that did not arrive
	maxSent    = 2 // messages of one call
	firstPause = 250 * time.Millisecond
)

// cancelLimit bounds the cancellation of a conversation.
const cancelLimit = 5 * time.Second

// A call is one request on its way through the language server.
type call struct {
	u     *Upstream
	req   *perigee.Request
	model string
	yield func(perigee.Event, error) bool
	left  bool // the caller has left

	chat     *chat
	sent     int           // messages
	open     *conversation // nil if there is none
	ended    bool          // the server has reported the end of the turn
	users    bool          // the user of the IDE continues the conversation
	reusable bool          // the conversation is kept for the next message
	answer   *answer
}

// run waits for a place in the queue and for the server, and retries until there is an answer.
func (c *call) run(ctx context.Context) error {
	if err := c.compose(); err != nil {
		return err
	}
	leave, err := c.u.queue.enter(ctx)
	if err != nil {
		return err
	}
	defer func() { c.leave(leave) }()
	pause := firstPause
	for try := 1; ; try++ {
		if err = c.u.opts.Wait(ctx); err == nil {
			c.model, err = c.u.identify(ctx, c.model)
		}
		if err == nil {
			err = c.ask(ctx)
		}
		if !errors.Is(err, ErrLost) || c.left || c.answer.hasStarted() || try == maxTries || c.sent == maxSent {
			return err
		}
		c.u.opts.Logger.Info("conversation lost, starting another", "upstream", c.u.opts.Name, "call", c.req.ID, "error", err)
		if !perigee.Pause(ctx, pause) {
			return ctx.Err()
		}
		pause *= 2
	}
}

// identify returns the ID of a model, as it appears in answers and traces, by its label or another
// name. A gateway may have models that the language server does not.
func (u *Upstream) identify(ctx context.Context, model string) (string, error) {
	client, ok := u.opts.Client.(interface {
		ModelID(ctx context.Context, name string) (string, error)
	})
	if !ok {
		return model, nil
	}
	id, err := client.ModelID(ctx, model)
	if err == nil {
		return id, nil
	}
	if u.opts.Gateway != nil && perigee.AsError(err).Class == perigee.ClassNotFound {
		err = nil
	}
	return model, err
}

// textOnly refuses requests for images and audio.
func textOnly(req *perigee.Request) error {
	prompt, err := req.Prompt()
	if err != nil {
		return err
	}
	if models.Of(req.Model).Family == models.Image ||
		slices.ContainsFunc(prompt.Generation.Modalities, func(m string) bool { return !strings.EqualFold(m, "TEXT") }) {
		return perigee.Errorf(perigee.ClassUnimplemented, "the language server answers with text only").WithHint("use another upstream for images and sound")
	}
	return nil
}

// compose converts the request to text, or refuses it.
func (c *call) compose() error {
	if err := textOnly(c.req); err != nil {
		return err
	}
	prompt, err := c.req.Prompt()
	if err != nil {
		return err
	}
	chat, notes, err := compose(c.req, prompt)
	if err != nil {
		return err
	}
	if err := c.req.RefuseIfStrict(notes); err != nil {
		refused := *perigee.AsError(err)
		refused.Class = perigee.ClassUnimplemented // other upstreams may carry it
		return refused.WithHint("remove that from the request, set strict: false, or use another upstream")
	}
	c.req.Log.Note(notes...)
	c.chat = chat
	return nil
}

// ask submits the message within the time limit, and emits the answer.
func (c *call) ask(ctx context.Context) error {
	watched, watchdog := wire.Watch(ctx, c.u.opts.FirstByte)
	err := c.submit(watched)
	if err != nil && ctx.Err() == nil && errors.Is(context.Cause(watched), wire.ErrFirstByte) {
		err = wire.TransportError(watched, c.u.opts.Name, "workspace", err)
	}
	watchdog.Stop()
	if err != nil {
		return err
	}
	return c.follow(ctx)
}

// submit sends the message, to the conversation that has the history if there is one.
func (c *call) submit(ctx context.Context) error {
	kept, ok := c.u.reusable.take(c.chat.history())
	if ok {
		// If the user of the IDE has continued the conversation, it and its next answer belong to
		// the user.
		if shared, err := c.u.opts.Own.isShared(ctx, kept.cascade); shared || err != nil {
			c.u.discard(kept) // does not delete a conversation that belongs to the user
			ok = false
		}
	}
	if ok && len(c.chat.turns) > 0 {
		if err := c.send(ctx, kept, c.chat.last); !errors.Is(err, ErrLost) {
			return err
		}
	}
	cascade, err := c.u.opts.Client.Start(ctx, c.model)
	c.u.opts.Own.addConversation(cascade)
	fresh := &conversation{cascade: cascade}
	if err != nil {
		c.u.discard(fresh)
		return err
	}
	return c.send(ctx, fresh, c.chat.text())
}

// send sends a text. From then on the conversation has to be canceled, unless its turn ends.
func (c *call) send(ctx context.Context, to *conversation, text string) error {
	c.open, c.ended = to, false
	c.u.opts.Own.addMessage(to.cascade, text)
	err := c.u.opts.Client.Send(ctx, to.cascade, Message{Text: text, Model: c.model, Known: to.cursor.Size()})
	if errors.Is(err, ErrLost) {
		c.lost()
		return err
	}
	c.sent++
	c.req.Log.SetReached()
	return err
}

// lost deletes a conversation that the server does not have, or that did not receive the message.
func (c *call) lost() {
	c.u.discard(c.open)
	c.open = nil
}

// follow emits the output of the agent until its turn ends.
func (c *call) follow(ctx context.Context) error {
	c.answer = &answer{c: c, id: fmt.Sprintf("%s-%d", c.open.cascade, c.open.cursor.Size())}
	for event, err := range c.u.opts.Client.Follow(ctx, c.open.cascade, &c.open.cursor) {
		if err != nil {
			if errors.Is(err, ErrLost) {
				c.lost()
			}
			return err
		}
		if event.Kind == trajectory.KindDone {
			return c.finish(event)
		}
		if !c.answer.take(event) {
			return nil
		}
		if c.answer.turn.Read > maxAnswer {
			return perigee.Errorf(perigee.ClassUnavailable, "the agent wrote more than %d MiB", maxAnswer>>20).WithHint("start a new conversation")
		}
	}
	return perigee.Errorf(perigee.ClassUnavailable, "the language server stopped to report the conversation")
}

// finish ends the answer. If the turn ended well, its conversation is kept for the next message.
func (c *call) finish(done trajectory.Event) error {
	switch done.Reason {
	case trajectory.ReasonDone, trajectory.ReasonMaxInvocations:
		c.ended = true
	case trajectory.ReasonWaiting:
		c.ended = c.u.opts.Attached // without an IDE no person can answer
		c.users = c.ended
	}
	if err := c.answer.finish(done); err != nil || c.left {
		return err
	}
	if done.Reason == trajectory.ReasonDone {
		c.reusable = true
		c.u.keep(c.chat.after(c.answer.written.String()), c.open)
	}
	return nil
}

// leave releases the place in the queue. Before that it cancels the conversation if its turn may
// still run, and deletes it unless it is kept.
func (c *call) leave(leave func()) {
	switch {
	case c.open == nil || c.reusable:
		leave()
		return
	case c.users:
		leave()
		c.u.opts.Own.leave(c.open.cascade)
		return
	}
	ran := c.u.background.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), cancelLimit)
		defer cancel()
		if !c.ended && c.sent > 0 {
			if err := c.u.opts.Client.Cancel(ctx, c.open.cascade); err != nil {
				c.u.opts.Logger.Warn("conversation not canceled", "upstream", c.u.opts.Name, "call", c.req.ID, "error", err)
			}
		}
		leave()
		if c.u.opts.Own != nil && !c.ended {
			waiting, cancel := context.WithTimeout(ctx, cancelLimit/2)
			c.open.ends(waiting, c.u.opts.Client) // otherwise its files might be written once more
			cancel()
		}
		c.u.opts.Own.delete(ctx, c.open.cascade)
	})
	if !ran {
		leave()
	}
}
