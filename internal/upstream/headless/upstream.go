package headless

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"perigee"
	"perigee/internal/account/pool"
	"perigee/internal/langserver/supervisor"
	"perigee/internal/mcp/ask"
	"perigee/internal/upstream/antigravity"
	"perigee/internal/upstream/conversation"
)

// An Upstream answers calls from a language server that perigee runs.
type Upstream struct {
	*conversation.Upstream
	server  *Server
	carrier *conversation.Carrier
	own     *conversation.Own
	agent   *ask.Agent
}

// NewUpstream returns the upstream of a language server.
func NewUpstream(opts Options) *Upstream {
	u, server := opts.Upstream, New(opts)
	client := conversation.NewClient(server.client, conversation.ClientOptions{
		ReadOnly: !slices.Contains(u.Allow, "edit"), AnyModel: true, Cloud: opts.Models,
	})
	own := conversation.NewOwn(conversation.OwnOptions{
		Name: u.Name, Client: client, Dir: ownDir(opts), Deleted: server.forget, Logger: opts.Logger,
	})
	carrier := conversation.NewCarrier(conversation.CarrierOptions{
		Name: u.Name, Client: client, Calls: server.carried, Own: own, Logger: opts.Logger,
		Settle: opts.delays.settle, Reuse: opts.delays.reuse, Keep: opts.delays.keep, Use: server.use, Stuck: server.restartStuck,
	})
	return &Upstream{server: server, carrier: carrier, own: own, agent: newAgent(opts, server), Upstream: conversation.New(conversation.Options{
		Name: u.Name, Client: client, Wait: server.Wait,
		Gateway: antigravity.New(antigravity.Options{
			Name: u.Name, Endpoints: []string{cmp.Or(opts.Cloud, DefaultCloud)}, Accounts: leaser{server}, SessionRecovery: true,
			FirstByte: opts.FirstByte, Idle: opts.Idle, Transport: carrier, Carried: true, Logger: opts.Logger, Now: opts.Now,
		}),
		Concurrency: u.Concurrency, Depth: u.Queue.Depth, Timeout: u.Queue.Timeout, Logger: opts.Logger,
	})}
}

// Start opens the Extension Server. The process follows in the background. Conversations that an
// earlier run of perigee has left are removed: their files at once, and the copies in the process
// when it is ready.
func (u *Upstream) Start(ctx context.Context) error {
	if err := u.server.Start(ctx, u.own.Leftovers()...); err != nil {
		return err
	}
	u.server.working.Go(u.sweep)
	return nil
}

// sweep removes left-over conversations each time that the process has become ready.
func (u *Upstream) sweep() {
	pid := 0
	for {
		changed, status := u.server.Changed(), u.server.Status()
		if status.State == supervisor.Ready && status.PID != pid {
			pid = status.PID
			u.own.Sweep(u.server.base)
		}
		select {
		case <-changed:
		case <-u.server.base.Done():
			return
		}
	}
}

// Close ends the process.
func (u *Upstream) Close(ctx context.Context) error {
	return errors.Join(u.Upstream.Close(ctx), u.carrier.Close(ctx), u.server.Close(ctx))
}

// Stream keeps the process from being restarted until the stream ends. While no account can be
// used there is no process, and the error comes from the accounts.
func (u *Upstream) Stream(ctx context.Context, req *perigee.Request) iter.Seq2[perigee.Event, error] {
	return func(yield func(perigee.Event, error) bool) {
		if err := u.server.refusal(req.Model); err != nil {
			e := *perigee.AsError(err)
			e.Upstream = u.server.opts.Upstream.Name
			yield(perigee.Event{}, &e)
			return
		}
		defer u.server.Begin()()
		u.Upstream.Stream(ctx, req)(yield)
	}
}

// AccountsInForce makes the language server choose its account again.
func (u *Upstream) AccountsInForce() { u.server.signIn.Check() }

// Status describes the language server.
func (u *Upstream) Status() supervisor.Status { return u.server.Status() }

// Secrets returns the tokens that the language server has, for a redactor.
func (u *Upstream) Secrets() []perigee.Secret {
	if process := u.server.supervisor(); process != nil {
		return process.Secrets()
	}
	return nil
}

// Requests returns the number of calls of the Extension Server, by method and code.
func (u *Upstream) Requests() map[string]map[string]int64 {
	if u.server.extension == nil {
		return nil
	}
	return u.server.extension.Requests()
}

// Unusable returns the reason why calls fail, or "" if they may succeed. A process that failed
// more than a minute ago is started again by the next call.
func (u *Upstream) Unusable() string {
	status := u.Status()
	if list := u.server.opts.Accounts(); list != nil {
		if why := list.Unusable(); why != "" {
			return why
		}
		if list.Refusal(u.server.within(pool.Request{}).Email) != nil {
			return "its account cannot be used"
		}
	}
	switch {
	case status.State == supervisor.Failed && u.server.opts.Now().Sub(status.Since) < retryLaunch:
		return "the language server failed: " + status.LastExit
	case status.State == supervisor.Stopped && status.Account == "":
		return "no account is signed in"
	}
	return ""
}

// Run calls ready each time that the language server can answer. It returns when ctx ends, when
// there is no account, or when the language server has failed.
func (u *Upstream) Run(ctx context.Context, ready func(supervisor.Status)) error {
	if _, err := u.server.signIn.Current(ctx); err != nil && ctx.Err() == nil {
		return err
	}
	pid := 0
	for {
		changed, status := u.server.Changed(), u.server.Status()
		switch {
		case status.State == supervisor.Failed && u.server.supervisor() == nil:
			return errors.New(status.LastExit) // it was not started; this names the next step
		case status.State == supervisor.Failed:
			return fmt.Errorf("the language server failed: %s; %s", status.LastExit, supervisor.Advice(status.LastExit))
		case status.State == supervisor.Ready && status.PID != pid:
			pid = status.PID
			ready(status)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}
