package mcpcmd

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"sync"
	"time"

	"perigee"
	"perigee/internal/cli/command"
	"perigee/internal/daemon"
	"perigee/internal/daemon/remote"
	"perigee/internal/mcp/ask"
	"perigee/internal/mcp/mcpserver"
)

// An Owner is the mcpserver.Backend of the owner's MCP clients: the daemon, or its parts if none is
// running. Any number of Owners can exist at once.
type Owner struct {
	load func() (daemon.Options, error)
	opts daemon.Options

	mu      sync.Mutex
	offline *daemon.Offline // nil until an ask finds no daemon
}

// NewOwner returns an Owner. opts need no secrets: load returns the same options with the secrets
// of upstreams, and is called when there is no daemon.
func NewOwner(opts daemon.Options, load func() (daemon.Options, error)) *Owner {
	return &Owner{opts: opts, load: load}
}

// closeTime is how long Close may take to write recorded data.
const closeTime = 5 * time.Second

// Close closes the handle that is used without a daemon.
func (o *Owner) Close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.offline == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	if err := o.offline.Close(ctx); err != nil && o.opts.Logger != nil {
		o.opts.Logger.Warn(err.Error())
	}
}

// daemon returns the client of the running daemon; nil if there is none.
func (o *Owner) daemon(ctx context.Context) (*remote.Client, error) {
	client, err := daemon.Reach(ctx, o.opts.Loaded.Config)
	if errors.Is(err, daemon.ErrNotRunning) {
		return nil, nil
	}
	if err != nil {
		return nil, perigee.Errorf(perigee.ClassUnavailable, "%w", err)
	}
	return client, nil
}

// withoutDaemon returns the handle that answers without a daemon. It stays open until Close.
func (o *Owner) withoutDaemon(ctx context.Context) (*daemon.Offline, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.offline != nil {
		return o.offline, nil
	}
	opts, err := o.load()
	if err != nil {
		return nil, err
	}
	o.offline, err = daemon.OpenOffline(ctx, opts)
	return o.offline, err
}

// Ask asks the daemon, or answers without one.
func (o *Owner) Ask(ctx context.Context, r ask.Request, progress func(ask.Progress)) (ask.Answer, error) {
	client, err := o.daemon(ctx)
	if err != nil {
		return ask.Answer{}, err
	}
	if client != nil {
		answer, err := client.Asker().Ask(ctx, r, progress)
		if !errors.Is(err, ask.ErrDeclined) { // or else it has ended in this moment
			return answer, err
		}
	}
	offline, err := o.withoutDaemon(ctx)
	if err != nil {
		return ask.Answer{}, err
	}
	return offline.Ask(ctx, r, progress)
}

// Open returns the control of perigee, and a function that ends its use.
func (o *Owner) Open(ctx context.Context) (perigee.Control, func(), error) {
	opts := o.opts
	client, err := o.daemon(ctx)
	if err == nil && client == nil {
		opts, err = o.load()
	}
	if err != nil {
		return perigee.Control{}, nil, err
	}
	handle, err := daemon.Connect(ctx, opts)
	if err != nil {
		return perigee.Control{}, nil, err
	}
	return handle.Control, handle.Close, nil
}

// Usage returns the recorded usage.
func (o *Owner) Usage(ctx context.Context, q perigee.UsageQuery) ([]perigee.UsageRow, error) {
	client, err := o.daemon(ctx)
	if err != nil {
		return nil, err
	}
	if client != nil {
		query := command.Parameters(map[string]string{"by": q.By, "each": q.Each,
			"since": command.Timestamp(q.Since), "until": command.Timestamp(q.Until)})
		return remote.Ask[[]perigee.UsageRow](ctx, client, http.MethodGet, "/v1/usage?"+query.Encode(), nil)
	}
	offline, err := o.withoutDaemon(ctx)
	if err != nil {
		return nil, err
	}
	return offline.Usage(ctx, q)
}

// LastFailure returns the last failed call of a key, or of any key if all is set.
func (o *Owner) LastFailure(ctx context.Context, key string, all bool) (perigee.Trace, bool, error) {
	client, err := o.daemon(ctx)
	if err != nil {
		return perigee.Trace{}, false, err
	}
	if client != nil {
		rows, err := remote.Ask[[]perigee.TraceRow](ctx, client, http.MethodGet, "/v1/traces?errors=true&limit=1", nil)
		if err != nil || len(rows) == 0 {
			return perigee.Trace{}, false, err
		}
		trace, err := remote.Ask[perigee.Trace](ctx, client, http.MethodGet, "/v1/traces/"+url.PathEscape(rows[0].ID), nil)
		return trace, err == nil, err
	}
	offline, err := o.withoutDaemon(ctx)
	if err != nil {
		return perigee.Trace{}, false, err
	}
	return mcpserver.LastFailure(ctx, offline, key, all)
}
