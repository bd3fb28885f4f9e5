// Package conversation is the upstream for a language server of Antigravity: a request becomes a
// message in one of its conversations, and the agent's output becomes the answer.
//
// If the calls of the language server are intercepted, the whole request is sent to the cloud
// inside one of them (see Carrier). Otherwise it becomes one text. Tools, media and generation
// parameters of the client are dropped then, with a note, or refused if the request is strict. The
// instructions and the earlier messages are written into the text (see chat), unless this upstream
// has kept the conversation that contains them (see conversations).
//
// The package starts no process and makes no connections: a Client makes the calls, and
// Options.Wait waits for the server.
package conversation

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"log/slog"
	"strings"
	"time"

	"perigee"
	"perigee/internal/langserver/trajectory"
)

// A Client has conversations with the language server. NewClient returns one for a
// lsclient.Client.
type Client interface {
	// Start creates a conversation with a model. An error that wraps ErrLost means that the server
	// was not reached. With any other error a conversation may exist if cascade is not empty.
	Start(ctx context.Context, model string) (cascade string, err error)
	// Send adds a message. An error that wraps ErrLost means that the server did not receive it.
	Send(ctx context.Context, cascade string, m Message) error
	// Follow returns the events of a conversation from the cursor until the end of the turn, and
	// advances the cursor. An error that wraps ErrLost means that the server no longer has the
	// conversation.
	Follow(ctx context.Context, cascade string, cursor *trajectory.Cursor) iter.Seq2[trajectory.Event, error]
	// Cancel stops the agent's turn.
	Cancel(ctx context.Context, cascade string) error
	// Models lists the models that messages can name.
	Models(ctx context.Context) ([]perigee.Model, error)
}

// A Message is sent to the agent. Known is the number of steps that the conversation had before.
type Message struct {
	Text  string
	Model string
	Known int
}

// ErrLost is the cause of an error that a restart of the server explains: the message can be sent
// to another conversation.
var ErrLost = errors.New("the language server does not have the conversation")

// Options configure an upstream. Zero values mean defaults.
type Options struct {
	Name   string // name in the configuration
	Client Client
	// Wait returns when the language server is ready, or with the reason why it will not be. If it
	// is nil, the server is always ready.
	Wait func(ctx context.Context) error
	// Gateway answers the requests, which a Carrier sends through the language server. If it is
	// nil, the language server's agent answers them.
	Gateway perigee.Upstream
	// Attached means that the language server belongs to an IDE, so that its user can answer
	// questions of the agent.
	Attached bool
	// Own deletes the conversations of calls that are not continued. If it is nil, all of them are
	// kept.
	Own *Own

	FirstByte   time.Duration // how long the server may take to accept a message; 0 means no limit
	Concurrency int           // conversations at once; default 2
	Depth       int           // calls that may wait for one; with 0 none waits
	Timeout     time.Duration // how long they wait; 0 means as long as the client does
	// how long a conversation is kept for the message that continues it; 5 min by default
	Keep time.Duration

	Logger *slog.Logger
}

// An Upstream calls a language server.
type Upstream struct {
	opts     Options
	queue    *queue
	reusable conversations[*conversation]

	background Background // cancellations and deletions
}

var (
	_ perigee.Upstream     = (*Upstream)(nil)
	_ perigee.ModelLister  = (*Upstream)(nil)
	_ perigee.TokenCounter = (*Upstream)(nil)
)

// New returns an upstream.
func New(opts Options) *Upstream {
	opts.Concurrency, opts.Keep = cmp.Or(opts.Concurrency, 2), cmp.Or(opts.Keep, 5*time.Minute)
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	if opts.Wait == nil {
		opts.Wait = func(context.Context) error { return nil }
	}
	return &Upstream{opts: opts, queue: newQueue(opts.Concurrency, opts.Depth, opts.Timeout)}
}

// Close waits until the conversations of failed calls are canceled and the conversations of ended
// calls are deleted, or until ctx ends.
func (u *Upstream) Close(ctx context.Context) error {
	for _, c := range u.reusable.clear() {
		u.discard(c)
	}
	return u.background.Close(ctx)
}

// keep keeps a conversation for the next message, and deletes it if none comes in time.
func (u *Upstream) keep(key historyKey, c *conversation) {
	for _, earlier := range u.reusable.keep(key, c) {
		u.discard(earlier)
	}
	time.AfterFunc(u.opts.Keep, func() {
		if u.reusable.drop(key, c) {
			u.discard(c)
		}
	})
}

// discard deletes a conversation after its turn has ended.
func (u *Upstream) discard(c *conversation) {
	if u.opts.Own == nil {
		return
	}
	u.background.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), cancelLimit)
		defer cancel()
		u.opts.Own.delete(ctx, c.cascade)
	})
}

// Models lists the models of the language server.
func (u *Upstream) Models(ctx context.Context) ([]perigee.Model, error) {
	if err := u.opts.Wait(ctx); err != nil {
		return nil, u.explain("", err)
	}
	list, err := u.opts.Client.Models(ctx)
	if err != nil {
		return nil, u.explain("", err)
	}
	for i := range list {
		list[i].Upstream = u.opts.Name
	}
	return list, nil
}

// CountTokens estimates: the language server has no method for it.
func (u *Upstream) CountTokens(_ context.Context, req *perigee.Request) (*perigee.TokenCount, error) {
	prompt, err := req.Prompt()
	if err != nil {
		return nil, err
	}
	return &perigee.TokenCount{Upstream: u.opts.Name, Model: req.Model, Total: prompt.EstimateTokens(), Estimate: true}, nil
}

// StopLimit returns how many stop sequences of a prompt the gateway takes. Without one, an agent
// answers, which is not ended by a text.
func (u *Upstream) StopLimit(req *perigee.Request) int {
	return perigee.Passthrough{Upstream: u.opts.Gateway}.StopLimit(req)
}

// Stream returns the events of the agent's or the gateway's answer to the request.
func (u *Upstream) Stream(ctx context.Context, req *perigee.Request) iter.Seq2[perigee.Event, error] {
	return func(yield func(perigee.Event, error) bool) {
		if u.opts.Gateway != nil {
			u.streamCarried(ctx, req, yield)
			return
		}
		c := &call{u: u, req: req, model: req.Model, yield: yield}
		if err := c.run(ctx); err != nil && !c.left {
			yield(perigee.Event{}, u.explain(c.model, err))
		}
	}
}

// versionHint is the advice for a version that the provider refuses.
const versionHint = "update the installed Antigravity, or set version: of this upstream in the configuration to the version of the installed product"

// explain completes an error with upstream, model and hint.
func (u *Upstream) explain(model string, err error) error {
	e := *perigee.AsError(err)
	e.Upstream, e.Model = u.opts.Name, model
	// the configuration key of this kind of upstream
	e.Hint = strings.ReplaceAll(e.Hint, "client_version", "version")
	switch {
	case e.Class == perigee.ClassIdentity:
		e.Hint = versionHint
	case e.Class == perigee.ClassUnavailable && e.Hint == "":
		e.Hint = "try again; `perigee langserver status` shows the state of the language server"
	}
	if e.Cause == nil {
		e.Cause = err
	}
	return &e
}
