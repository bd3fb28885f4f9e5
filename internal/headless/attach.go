package headless

import (
	"context"
	"sync"
	"time"

	"perigee"
	"perigee/internal/ask/agent"
	"perigee/internal/config"
	"perigee/internal/langserver"
	"perigee/internal/langserver/discover"
	"perigee/internal/langserver/lsclient"
	conversation "perigee/internal/upstream/langserver"
)

// An Attached answers calls from the language server of a running IDE. It starts and stops nothing.
type Attached struct {
	*conversation.Upstream
	upstream config.Upstream
	finder   *discover.Finder
	agent    *agent.Agent
	now      func() time.Time

	mu    sync.Mutex
	state langserver.State // at the last call
	since time.Time
	why   string
}

// NewAttached returns the upstream of an IDE that has the configured workspace open.
func NewAttached(opts Options) *Attached {
	u := opts.Upstream
	a := &Attached{upstream: u, finder: discover.NewFinder(opts.processes, u.Workspace), now: opts.Now, state: langserver.Stopped, since: opts.Now()}
	client := lsclient.New(lsclient.Options{Endpoint: a.endpoint, Logger: opts.Logger})
	a.agent = agent.New(client, agent.Options{Source: askSource, Upstream: u.Name, Logger: opts.Logger})
	a.Upstream = conversation.New(conversation.Options{
		Name: u.Name, Client: conversation.NewClient(client, conversation.ClientOptions{}), Wait: a.wait, Attached: true,
		Concurrency: u.Concurrency, Depth: u.Queue.Depth, Timeout: u.Queue.Timeout, Logger: opts.Logger,
	})
	return a
}

func (a *Attached) wait(ctx context.Context) error {
	_, err := a.endpoint(ctx, false)
	return err
}

func (a *Attached) endpoint(ctx context.Context, stale bool) (lsclient.Endpoint, error) {
	found, err := a.finder.Current(ctx, stale)
	state, why := langserver.Ready, ""
	if err != nil {
		state, why = langserver.Stopped, perigee.AsError(err).Message
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
func (a *Attached) Status() langserver.Status {
	a.mu.Lock()
	defer a.mu.Unlock()
	status := langserver.Status{Upstream: a.upstream.Name, State: a.state, Since: a.since, LastExit: a.why}
	if found, ok := a.finder.Last(); ok && a.state == langserver.Ready {
		status.PID, status.HTTPPort, status.HTTPSPort, status.Version = found.PID, found.Endpoint.HTTP, found.Endpoint.HTTPS, found.Version
	}
	return status
}
