package headless

import (
	"context"
	"sync"
	"time"

	"perigee"
	"perigee/internal/langserver/discover"
	"perigee/internal/langserver/lsclient"
	"perigee/internal/langserver/supervisor"
	"perigee/internal/mcp/ask"
	"perigee/internal/store/config"
	"perigee/internal/upstream/conversation"
)

// An Attached answers calls from the language server of a running IDE. It starts and stops nothing.
type Attached struct {
	*conversation.Upstream
	upstream config.Upstream
	finder   *discover.Finder
	agent    *ask.Agent
	own      *conversation.Own
	now      func() time.Time

	base    context.Context // done at Close
	cancel  context.CancelFunc
	working sync.WaitGroup

	mu    sync.Mutex
	state supervisor.State // state at the last call
	since time.Time
	why   string
	swept int // the process from which left-over conversations have been removed
}

// NewAttached returns the upstream of an IDE that has the configured workspace open.
func NewAttached(opts Options) *Attached {
	u := opts.Upstream
	a := &Attached{upstream: u, finder: discover.NewFinder(opts.processes, u.Workspace), now: opts.Now, state: supervisor.Stopped, since: opts.Now()}
	client := lsclient.New(lsclient.Options{Endpoint: a.endpoint, Logger: opts.Logger})
	a.base, a.cancel = context.WithCancel(context.Background())
	a.agent = ask.NewAgent(client, ask.AgentOptions{Source: askSource, Upstream: u.Name, Logger: opts.Logger})
	conversations := conversation.NewClient(client, conversation.ClientOptions{})
	a.own = conversation.NewOwn(conversation.OwnOptions{Name: u.Name, Client: conversations, Dir: ownDir(opts), Attached: true, Logger: opts.Logger})
	a.Upstream = conversation.New(conversation.Options{
		Name: u.Name, Client: conversations, Wait: a.wait, Attached: true, Own: a.own, Keep: opts.delays.keep, FirstByte: opts.FirstByte,
		Concurrency: u.Concurrency, Depth: u.Queue.Depth, Timeout: u.Queue.Timeout, Logger: opts.Logger,
	})
	return a
}

// Close deletes the conversations of calls.
func (a *Attached) Close(ctx context.Context) error {
	err := a.Upstream.Close(ctx)
	a.mu.Lock()
	a.cancel()
	a.mu.Unlock()
	a.working.Wait()
	return err
}

// wait returns when the language server was found. Once per process, it removes the conversations
// that an earlier run of perigee has left in it.
func (a *Attached) wait(ctx context.Context) error {
	_, err := a.endpoint(ctx, false)
	found, ok := a.finder.Last()
	if err != nil || !ok {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.swept != found.PID && a.base.Err() == nil {
		a.swept = found.PID
		a.working.Go(func() { a.own.Sweep(a.base) })
	}
	return nil
}

func (a *Attached) endpoint(ctx context.Context, stale bool) (lsclient.Endpoint, error) {
	found, err := a.finder.Current(ctx, stale)
	state, why := supervisor.Ready, ""
	if err != nil {
		state, why = supervisor.Stopped, perigee.AsError(err).Message
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.state != state {
		a.since = a.now()
	}
	a.state, a.why = state, why
	return found.Endpoint, err
}

// Status describes the language server as the last call found it.
func (a *Attached) Status() supervisor.Status {
	a.mu.Lock()
	defer a.mu.Unlock()
	status := supervisor.Status{Upstream: a.upstream.Name, State: a.state, Since: a.since, LastExit: a.why}
	if found, ok := a.finder.Last(); ok && a.state == supervisor.Ready {
		status.PID, status.HTTPPort, status.HTTPSPort, status.Version = found.PID, found.Endpoint.HTTP, found.Endpoint.HTTPS, found.Version
	}
	return status
}
