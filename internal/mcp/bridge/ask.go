package bridge

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"perigee"
	"perigee/internal/mcp/ask"
)

// cancelTime is how long an ask may take to end after it was canceled.
const cancelTime = 5 * time.Second

// A notice is the progress of an ask.
type notice struct {
	ID           string `json:"id"`
	Text         string `json:"text"`
	Steps        int    `json:"steps"`
	Conversation string `json:"conversation"`
}

// A mailbox keeps the latest notice of an ask: a slow reader of progress skips some and does not
// delay the connection.
type mailbox struct {
	mu   sync.Mutex
	last notice
	full chan struct{} // there is a new notice
}

func (b *mailbox) put(n notice) {
	b.mu.Lock()
	if n.Conversation == "" {
		n.Conversation = b.last.Conversation
	}
	b.last = n
	b.mu.Unlock()
	select {
	case b.full <- struct{}{}:
	default:
	}
}

func (b *mailbox) get() notice {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.last
}

// progress stores a notice in the mailbox of its ask.
func (c *Conn) progress(params json.RawMessage) {
	var n notice
	if json.Unmarshal(params, &n) != nil {
		return
	}
	c.mu.Lock()
	box := c.asks[n.ID]
	c.mu.Unlock()
	if box != nil {
		box.put(n)
	}
}

// Ask returns the agent's answer to a prompt, as described in ask.Asker. The window must be able
// to follow conversations. The answer has no source.
func (c *Conn) Ask(ctx context.Context, r ask.Request, progress func(ask.Progress)) (ask.Answer, error) {
	if err := ctx.Err(); err != nil {
		return ask.Answer{}, perigee.AsError(err)
	}
	box := &mailbox{full: make(chan struct{}, 1)}
	c.mu.Lock()
	c.asks[r.ID] = box
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.asks, r.ID)
		c.mu.Unlock()
	}()
	id, reply, err := c.request("llm/ask", askParams(r))
	if err != nil {
		return ask.Answer{}, c.sendError(err)
	}
	defer c.forget(id)
	shown := ask.Progress{}
	for {
		select {
		case m := <-reply:
			return c.answer(m, box.get())
		case <-box.full:
			n := box.get()
			if now := (ask.Progress{Text: n.Text, Steps: n.Steps}); progress != nil && now != shown {
				shown = now
				progress(now)
			}
		case <-ctx.Done():
			return c.leave(ctx, r.ID, reply, box)
		case <-c.failed:
			return c.lost(reply, box)
		}
	}
}

func askParams(r ask.Request) object {
	params := object{"id": r.ID, "prompt": r.Prompt}
	for name, value := range map[string]string{"model": r.Model, "workspace": r.Workspace, "conversation": r.Conversation} {
		if value != "" {
			params[name] = value
		}
	}
	if r.Timeout > 0 {
		params["timeout_seconds"] = max(1, int(r.Timeout.Seconds()))
	}
	if r.ReadOnly {
		params["read_only"] = true
	}
	return params
}

// sendError returns the error of a request that was not sent.
func (c *Conn) sendError(err error) error {
	if e, ok := errors.AsType[*perigee.Error](err); ok {
		return e
	}
	return declined(perigee.ClassUnavailable, nil, "the connection to the editor window was lost: %s", c.clean(err.Error()))
}

// leave ends an ask after its caller has stopped waiting: the agent continues if the ask is out of
// time, and is stopped otherwise.
func (c *Conn) leave(ctx context.Context, id string, reply chan message, box *mailbox) (ask.Answer, error) {
	if errors.Is(context.Cause(ctx), ask.ErrTimeout) {
		n := box.get()
		return ask.Answer{Text: n.Text, Conversation: n.Conversation, Status: ask.Timeout}, nil
	}
	wait, cancel := context.WithTimeout(context.Background(), cancelTime)
	defer cancel()
	if err := c.call(wait, "llm/cancel", object{"id": id}, &struct{}{}); err == nil {
		select {
		case m := <-reply:
			return c.answer(m, box.get())
		case <-c.failed:
		case <-wait.Done():
		}
	}
	n := box.get()
	return ask.Answer{Text: n.Text, Conversation: n.Conversation, Status: ask.Cancelled}, nil
}

// lost returns the answer after the connection has ended.
func (c *Conn) lost(reply chan message, box *mailbox) (ask.Answer, error) {
	select {
	case m := <-reply: // it came before the end
		return c.answer(m, box.get())
	default:
	}
	return failed(box.get(), perigee.Errorf(perigee.ClassUnavailable, "the connection to the editor window was lost before the answer was complete: %s", c.clean(c.err.Error())).
		WithHint("whether the agent goes on is unknown: look at the conversation in the IDE before you ask again")), nil
}

func failed(n notice, err *perigee.Error) ask.Answer {
	a := ask.Fail(err)
	a.Text, a.Conversation = n.Text, n.Conversation
	return a
}

// answer reads the reply to an ask.
func (c *Conn) answer(m message, n notice) (ask.Answer, error) {
	if m.Error != nil {
		return c.refusal(m.Error, n)
	}
	var a ask.Answer
	if json.Unmarshal(m.Result, &a) != nil {
		return failed(n, perigee.Errorf(perigee.ClassUnavailable, "the editor window answered with something else").
			WithHint("update perigee or the extension; the conversation is in the IDE")), nil
	}
	a.Conversation, a.Source, a.Skipped = cmp.Or(a.Conversation, n.Conversation), "", nil
	switch a.Status {
	case ask.Done, ask.Waiting, ask.Cancelled, ask.Timeout:
		a.Error = nil
	case ask.Failed:
		e := cmp.Or(a.Error, &ask.Failure{Message: "the agent of the editor window failed"})
		a.Error = &ask.Failure{Class: e.Class, Message: c.clean(e.Message), Hint: c.clean(e.Hint)}
		if !slices.Contains(classes, e.Class) {
			a.Error.Class = perigee.ClassUnavailable
		}
	default:
		n.Text, n.Conversation = a.Text, a.Conversation
		e := perigee.Errorf(perigee.ClassUnavailable, "the editor window answered with the unknown status %q",
			perigee.Clip(string(a.Status), 40))
		return failed(n, e.WithHint("update perigee or the extension; the conversation is in the IDE")), nil
	}
	return a, nil
}

// refusal converts the error of an ask: it was not handed over, was canceled, or failed.
func (c *Conn) refusal(e *RPCError, n notice) (ask.Answer, error) {
	if e.Code == codeCancelled {
		return ask.Answer{Text: n.Text, Conversation: n.Conversation, Status: ask.Cancelled}, nil
	}
	err := c.explain(e)
	if errors.Is(err, ErrUnclear) {
		return failed(n, err), nil
	}
	return ask.Answer{}, err
}

// explain returns the error of a reply. If it wraps ErrUnclear, the request may have been carried
// out.
func (c *Conn) explain(e *RPCError) *perigee.Error {
	text := c.clean(e.Message)
	switch e.Code {
	case codeVersion:
		return declined(perigee.ClassUnavailable, errIncompatible, "the extension speaks another version of the protocol: %s", text).
			WithHint("update perigee or the extension, so that both have the same version")
	case codeNoAgent:
		return declined(perigee.ClassUnavailable, nil, "the editor window has no agent: %s", text).WithHint("open the workspace in Antigravity")
	case codeBusy:
		return declined(perigee.ClassCapacity, errBusy, "the editor window is busy: %s", text).WithHint("try again later")
	case codeNoMethod:
		return declined(perigee.ClassUnimplemented, nil, "the extension does not have the method: %s", text).WithHint("update the extension")
	case codeCancelled:
		return perigee.Errorf(perigee.ClassCanceled, "canceled in the editor window: %s", text)
	case codeOutside:
		return perigee.Errorf(perigee.ClassForbidden, "the editor window refuses a path outside of its workspace: %s", text).
			WithHint("open the directory in the IDE, or name one that is open")
	case codeParams:
		class := e.Data.Class
		if class == "" {
			class = perigee.ClassInvalid
		}
		return perigee.Errorf(class, "the editor window refuses the request: %s", text)
	}
	err := perigee.Errorf(perigee.ClassUnavailable, "the editor window reports an error: %s", text).WithHint("look at the conversation in the IDE before you ask again")
	if e.Data.Class != "" {
		err.Class = e.Data.Class
	}
	err.Cause = ErrUnclear
	return err
}

// A Submitted is the time at which a prompt was put into the panel, and the conversations before
// it.
type Submitted struct {
	Time   string         `json:"submitted"` // RFC 3339
	Before []Conversation `json:"before"`    // their state before the submission
}

// A Conversation describes a conversation of the window. Zero values mean unknown.
type Conversation struct {
	ID        string `json:"id"`
	Workspace string `json:"workspace"`
	Modified  string `json:"modified"` // RFC 3339
	Steps     int    `json:"steps"`
}

// ModifiedAt returns when the conversation was modified, or the zero time if that is unknown.
func (c Conversation) ModifiedAt() time.Time {
	at, _ := time.Parse(time.RFC3339Nano, c.Modified)
	return at
}

// Submit puts a prompt into the agent's panel, in a new conversation or the named one. If the
// error wraps ErrUnclear, the agent may have received the prompt.
func (c *Conn) Submit(ctx context.Context, id, prompt, conversation string) (Submitted, error) {
	params := object{"id": id, "prompt": prompt}
	if conversation != "" {
		params["conversation"] = conversation
	}
	var s Submitted
	err := c.do(ctx, "llm/submit", params, &s)
	return s, err
}

// Recent lists conversations of the window. With limit 0 the window chooses their number.
func (c *Conn) Recent(ctx context.Context, limit int) ([]Conversation, error) {
	params := object{}
	if limit > 0 {
		params["limit"] = limit
	}
	var r struct {
		Conversations []Conversation `json:"conversations"`
	}
	err := c.do(ctx, "state/recent", params, &r)
	return r.Conversations, err
}

// do makes a call and converts its error for callers.
func (c *Conn) do(ctx context.Context, method string, params, result any) error {
	err := c.call(ctx, method, params, result)
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*RPCError](err); ok {
		return c.explain(e)
	}
	if ctx.Err() == nil && errors.Is(err, ErrUnclear) {
		return perigee.Errorf(perigee.ClassUnavailable, "the connection to the editor window was lost: %w", err)
	}
	if ctx.Err() != nil {
		return perigee.AsError(err)
	}
	return c.sendError(err)
}
