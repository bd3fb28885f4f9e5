package daemon

import (
	"context"
	"fmt"
	"slices"
	"time"

	"perigee"
	"perigee/internal/daemon/gateway"
	"perigee/internal/mcp/ask"
	"perigee/internal/route/record"
	"perigee/internal/store/config"
	"perigee/internal/store/sqlstore"
)

// newAsks returns the service that answers the asks of MCP clients, by the configuration that
// settings returns.
func newAsks(g *gateway.Gateway, opts Options, settings func() *config.Config, store *sqlstore.Store, recorder *record.Recorder) *ask.Service {
	models := ask.NewModelAsker(ask.ModelOptions{
		Upstream: g, Model: func() string { return settings().MCP.Model }, Names: g.Names, Simulated: g.Simulated,
		Store: store, Now: opts.Now, Logger: opts.Logger,
	})
	return ask.NewService(ask.Options{
		Sources: func() []ask.Source { return askSources(g, settings().MCP.Ask, models) },
		Idle:    func() time.Duration { return settings().MCP.AskTimeout },
		Max:     func() time.Duration { return settings().MCP.AskMax },
		Names:   g.Names, Record: recorder, NewID: opts.NewID,
	})
}

// askSources returns the sources with these names in order. A source that is an upstream needs one
// of that kind.
func askSources(g *gateway.Gateway, names []string, models ask.Asker) (list []ask.Source) {
	for _, name := range names {
		source := ask.Source{Name: name, Asker: models}
		if name != config.AskModel {
			source = agentSource(g, name)
		}
		list = append(list, source)
	}
	return list
}

// agentSource returns the first upstream of a kind that answers asks.
func agentSource(g *gateway.Gateway, kind string) ask.Source {
	for _, e := range g.Entries() {
		if a, ok := e.Upstream.(agentUpstream); ok && e.Config.Kind == kind {
			return ask.Source{Name: kind, Asker: retainedAgent{a, g, e}}
		}
	}
	return ask.Source{Name: kind, Why: "no upstream of kind " + kind + " is configured"}
}

// An agentUpstream has an agent that answers asks.
type agentUpstream interface {
	ask.Asker
	ask.Holder
}

// A retainedAgent keeps its upstream from being closed during an ask.
type retainedAgent struct {
	agentUpstream
	gateway *gateway.Gateway
	entry   *gateway.Entry
}

func (h retainedAgent) Ask(ctx context.Context, r ask.Request, progress func(ask.Progress)) (ask.Answer, error) {
	entries, release := h.gateway.Hold()
	defer release()
	if slices.Contains(entries, h.entry) {
		return h.agentUpstream.Ask(ctx, r, progress)
	}
	return ask.Answer{}, ask.Declined(perigee.ClassUnavailable, "upstream %s was just removed from the configuration", h.entry.Config.Name)
}

// An Offline answers asks without a daemon, and reads recorded calls. Any number of them can be
// open at the same time.
type Offline struct {
	*ask.Service
	record.Reader
	offline *offlineControl
}

// OpenOffline opens the store and the upstreams. Upstreams that need a daemon, such as a language
// server, do not answer.
func OpenOffline(ctx context.Context, opts Options) (_ *Offline, err error) {
	opts = opts.complete()
	offline, err := openOffline(ctx, opts)
	if err != nil {
		return nil, err
	}
	if err := offline.openStore(ctx); err != nil {
		offline.close()
		return nil, err
	}
	prices := opts.Loaded.Config.PriceBook()
	recorder := record.New(offline.gateway, record.Options{Store: offline.store, Now: opts.Now, Logger: opts.Logger, Price: prices.CallCost})
	return &Offline{
		Service: newAsks(offline.gateway, opts, func() *config.Config { return opts.Loaded.Config }, offline.store, recorder),
		Reader:  record.Reader{Recorder: recorder, Store: prices.Reader(offline.store)}, offline: offline,
	}, nil
}

// Close writes the recorded calls, and ends the upstreams.
func (o *Offline) Close(ctx context.Context) error {
	err := o.Recorder.Close(ctx)
	o.offline.close()
	if err != nil {
		return fmt.Errorf("some asks could not be recorded: %w", err)
	}
	return nil
}
