package daemon

import (
	"context"
	"fmt"
	"time"

	"perigee"
	"perigee/internal/ask"
	"perigee/internal/ask/model"
	"perigee/internal/config"
	"perigee/internal/record"
	"perigee/internal/sqlstore"
)

// newAsks returns what answers the asks of MCP clients, by the configuration that settings returns.
func (g *gateway) newAsks(settings func() *config.Config, store *sqlstore.Store, recorder *record.Recorder) *ask.Service {
	models := model.New(model.Options{
		Upstream: g, Model: func() string { return settings().MCP.Model }, Resolve: g.Model, Simulated: g.simulated,
		Store: store, Now: g.opts.Now, Logger: g.opts.Logger,
	})
	return ask.NewService(ask.Options{
		Sources: func() []ask.Source { return g.askSources(settings().MCP.Ask, models) },
		Idle:    func() time.Duration { return settings().MCP.AskTimeout },
		Max:     func() time.Duration { return settings().MCP.AskMax },
		Record:  recorder, NewID: g.opts.NewID,
	})
}

// askSources returns the sources with these names in order. A source that is an upstream needs one of that kind.
func (g *gateway) askSources(names []string, models ask.Asker) (list []ask.Source) {
	for _, name := range names {
		source := ask.Source{Name: name, Asker: models}
		if name != config.AskModel {
			source = g.agentSource(name)
		}
		list = append(list, source)
	}
	return list
}

// agentSource returns the first upstream of a kind that answers asks.
func (g *gateway) agentSource(kind string) ask.Source {
	for _, e := range g.current.Load().entries {
		if a, ok := e.upstream.(agentUpstream); ok && e.config.Kind == kind {
			return ask.Source{Name: kind, Asker: heldAgent{a, a, g, e.upstream, e.config.Name}}
		}
	}
	return ask.Source{Name: kind, Why: "no upstream of kind " + kind + " is configured"}
}

// An agentUpstream has an agent that answers asks.
type agentUpstream interface {
	ask.Asker
	ask.Holder
}

// A heldAgent keeps its upstream from being closed during an ask.
type heldAgent struct {
	ask.Asker
	ask.Holder
	gateway  *gateway
	upstream perigee.Upstream
	name     string
}

func (h heldAgent) Ask(ctx context.Context, r ask.Request, progress func(ask.Progress)) (ask.Answer, error) {
	routing, release := h.gateway.acquire()
	defer release()
	for _, e := range routing.entries {
		if e.upstream == h.upstream {
			return h.Asker.Ask(ctx, r, progress)
		}
	}
	return ask.Answer{}, ask.Declined(perigee.ClassUnavailable, "upstream %s was just removed from the configuration", h.name)
}

// An Offline answers asks without a daemon, and reads what is recorded. Any number of them can be open beside each other.
type Offline struct {
	*ask.Service
	record.Reader
	offline *offlineControl
}

// OpenOffline opens the store and the upstreams. Upstreams that need a daemon, such as a language server, do not answer.
func OpenOffline(ctx context.Context, opts Options) (_ *Offline, err error) {
	opts = opts.complete()
	offline, err := openOffline(ctx, opts)
	if err != nil {
		return nil, err
	}
	if err := offline.openStore(ctx, opts); err != nil {
		offline.close()
		return nil, err
	}
	prices := opts.Loaded.Config.PriceBook()
	recorder := record.New(offline.gateway, record.Options{Store: offline.store, Now: opts.Now, Logger: opts.Logger, Price: prices.CallCost})
	return &Offline{
		Service: offline.gateway.newAsks(func() *config.Config { return opts.Loaded.Config }, offline.store, recorder),
		Reader:  record.Reader{Recorder: recorder, Store: prices.Reader(offline.store)}, offline: offline,
	}, nil
}

// Close writes what was recorded, and ends the upstreams.
func (o *Offline) Close(ctx context.Context) error {
	err := o.Recorder.Close(ctx)
	o.offline.close()
	if err != nil {
		return fmt.Errorf("some asks could not be recorded: %w", err)
	}
	return nil
}
