package daemon

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"

	"perigee"
	"perigee/internal/account"
	"perigee/internal/config"
	"perigee/internal/route"
	"perigee/internal/signature"
	"perigee/internal/simulator"
	"perigee/internal/sqlstore"
	"perigee/internal/until"
	"perigee/internal/upstream/antigravity"
	"perigee/internal/upstream/gemini"
	"perigee/internal/upstream/wire"
)

// SimulatorName is what the built-in upstream is called.
const SimulatorName = "simulator"

// A house is the routing that is in force, which a new configuration replaces while calls go on. It is the
// Upstream that everything in front of routing sees.
type house struct {
	opts       Options
	signatures *signature.Memory // of all upstreams, also of those to come
	accounts   func(context.Context) (*sqlstore.Accounts, error)
	brief      bool // for one command: nothing goes on in the background
	current    atomic.Pointer[plan]

	// The simulator is one for all plans, so that a reload does not cut its streams.
	simulator func() (*simulator.Server, error)
	closeSim  func()
}

// A plan is the routing of one configuration.
type plan struct {
	router  *route.Router
	rooms   []room
	builtin bool // the simulator answers because nothing else is configured
}

// A room is one upstream and the configuration that it was built from.
type room struct {
	config   config.Upstream
	limits   config.Limits
	upstream perigee.Upstream
	roster   *roster // of an upstream that has accounts
	close    func()
}

// newHouse builds the upstreams, which asks a store that may be far away: it ends with ctx. accounts is called when one of
// them needs sign-ins.
func newHouse(ctx context.Context, cfg *config.Config, opts Options, accounts func(context.Context) (*sqlstore.Accounts, error), brief bool) (*house, error) {
	h := &house{opts: opts, accounts: accounts, brief: brief, signatures: signature.NewMemory(signature.Options{Shared: !cfg.Store.URL.IsZero(), Now: opts.Now, Logger: opts.Logger})}
	h.closeSim = func() {}
	h.simulator = sync.OnceValues(func() (*simulator.Server, error) {
		sim, err := simulator.New(simulator.Options{Now: opts.Now, Logger: opts.Logger, CallLevel: slog.LevelDebug, Seed: "perigee"})
		if err == nil {
			h.closeSim = func() { _ = sim.Close() }
		}
		return sim, err
	})
	return h, h.rebuild(ctx, cfg)
}

// rebuild puts a new plan in force. Upstreams whose configuration did not change stay as they are, with their
// connections and what they know of their keys.
func (h *house) rebuild(ctx context.Context, cfg *config.Config) error {
	old := h.current.Load()
	next, err := h.plan(ctx, cfg, old)
	if err != nil {
		return err
	}
	h.current.Store(next)
	if old != nil {
		old.closeExcept(next)
	}
	return nil
}

func (h *house) plan(ctx context.Context, cfg *config.Config, old *plan) (*plan, error) {
	upstreams := cfg.Upstreams
	p := &plan{builtin: h.opts.Simulate || len(upstreams) == 0}
	rules := cfg.Models.Routes
	if p.builtin {
		upstreams = []config.Upstream{{Name: SimulatorName, Kind: config.KindSimulator}}
		rules = nil // they name upstreams that are not asked
	}
	options := route.Options{
		Default: cfg.Models.Default, Fallback: cfg.Models.Fallback, Aliases: cfg.Models.Aliases, Logger: h.opts.Logger, Now: h.opts.Now,
	}
	limits := config.Limits{FirstByte: cfg.Limits.FirstByte, Idle: cfg.Limits.Idle} // the others are no upstream's business
	for _, u := range upstreams {
		r, ok := old.find(u, limits)
		if !ok {
			var err error
			if r, err = h.build(ctx, u, limits); err != nil {
				p.closeExcept(old)
				return nil, err
			}
		}
		p.rooms = append(p.rooms, r)
		around := h.signatures.Around
		if u.Kind == config.KindAntigravity {
			around = h.signatures.AroundAll
		}
		options.Targets = append(options.Targets, route.Target{Name: u.Name, Upstream: until.Around(around(r.upstream))})
	}
	for _, r := range rules {
		options.Rules = append(options.Rules, route.Rule{Match: r.Match, To: r.To})
	}
	var err error
	p.router, err = route.New(options)
	return p, err
}

// A ConfigError is a configuration that holds but cannot do what is asked of it.
type ConfigError struct{ message string }

func (e *ConfigError) Error() string { return e.message }

// build makes the upstream that a configuration describes.
func (h *house) build(ctx context.Context, u config.Upstream, limits config.Limits) (room, error) {
	r := room{config: u, limits: limits}
	options := gemini.Options{
		Name: u.Name, URL: u.URL, Keys: u.Keys, UserAgent: "perigee/" + h.opts.Version,
		FirstByte: limits.FirstByte, Idle: limits.Idle, Logger: h.opts.Logger, Now: h.opts.Now,
	}
	switch u.Kind {
	case config.KindGemini:
		var err error
		if options.Transport, err = wire.NewProxyTransport(u.Proxy); err != nil {
			return room{}, fmt.Errorf("upstream %s: %w", u.Name, err)
		}
		up := gemini.New(options)
		r.upstream, r.close = up, func() { _ = up.Close() }
	case config.KindSimulator:
		// The simulator speaks the official API over pipes, so a call to it takes the way of a real one.
		sim, err := h.simulator()
		if err != nil {
			return room{}, fmt.Errorf("upstream %s: %w", u.Name, err)
		}
		options.URL, options.Transport = "http://simulator", sim.Transport()
		options.Keys = []perigee.Secret{perigee.NewSecret("simulator")}
		up := gemini.New(options)
		r.upstream, r.close = up, func() { _ = up.Close() }
	case config.KindAntigravity:
		return h.buildAntigravity(ctx, u, limits)
	default:
		return room{}, &ConfigError{fmt.Sprintf("upstream %s: this version of perigee cannot use kind %s", u.Name, u.Kind)}
	}
	return r, nil
}

// buildAntigravity makes an upstream that has accounts.
func (h *house) buildAntigravity(ctx context.Context, u config.Upstream, limits config.Limits) (room, error) {
	accounts, err := h.accounts(ctx)
	if err != nil {
		return room{}, fmt.Errorf("upstream %s: %w", u.Name, err)
	}
	transport, err := transportOf(u, h.opts)
	if err != nil {
		return room{}, err
	}
	roster, err := newRoster(ctx, u, accounts, transport, h.opts)
	if err != nil {
		return room{}, fmt.Errorf("upstream %s: %w", u.Name, err)
	}
	if !h.brief {
		roster.restoreSessions(ctx)
	}
	up := antigravity.New(antigravity.Options{
		Name: u.Name, Endpoints: slices.Clone(u.Endpoints), Accounts: roster.pool, UserAgent: userAgent(u, h.opts.Version),
		KeepThinking: u.KeepThinking, SessionRecovery: u.SessionRecovery,
		FirstByte: limits.FirstByte, Idle: limits.Idle, Transport: transport, Logger: h.opts.Logger, Now: h.opts.Now,
	})
	roster.askQuota = func(ctx context.Context, s account.Source) ([]perigee.QuotaRow, error) {
		return up.QuotaOf(ctx, s, slices.Contains(u.Pools, account.PoolCLI))
	}
	roster.watchQuota = !h.brief
	return room{config: u, limits: limits, upstream: up, roster: roster, close: func() { _ = up.Close(); roster.close() }}, nil
}

// transportOf is how an upstream with accounts is reached, for sign-in, refresh, quota and calls alike.
func transportOf(u config.Upstream, opts Options) (http.RoundTripper, error) {
	if opts.Transport != nil {
		return opts.Transport, nil
	}
	transport, err := wire.NewProxyTransport(u.Proxy)
	if err != nil {
		return nil, fmt.Errorf("upstream %s: %w", u.Name, err)
	}
	return transport, nil
}

func (p *plan) find(u config.Upstream, limits config.Limits) (room, bool) {
	if p == nil {
		return room{}, false
	}
	for _, r := range p.rooms {
		if reflect.DeepEqual(r.config, u) && reflect.DeepEqual(r.limits, limits) {
			return r, true
		}
	}
	return room{}, false
}

// closeExcept closes the upstreams that another plan does not go on using. Their open calls are not disturbed.
func (p *plan) closeExcept(other *plan) {
	for _, r := range p.rooms {
		if _, kept := other.find(r.config, r.limits); !kept {
			r.close()
		}
	}
}

func (h *house) close() {
	if p := h.current.Load(); p != nil {
		p.closeExcept(nil)
	}
	h.closeSim()
}

func (h *house) simulated() bool { return h.current.Load().builtin }

// model is what a client's name for a model stands for now.
func (h *house) model(name string) string { return h.current.Load().router.Model(name) }

// missing is the error about a model that nobody has.
func (h *house) missing(ctx context.Context, name string) error {
	_, err := h.current.Load().router.Missing(ctx, name)
	return err
}

func (h *house) Stream(ctx context.Context, req *perigee.Request) iter.Seq2[perigee.Event, error] {
	return h.current.Load().router.Stream(ctx, req)
}

func (h *house) CountTokens(ctx context.Context, req *perigee.Request) (*perigee.TokenCount, error) {
	return h.current.Load().router.CountTokens(ctx, req)
}

func (h *house) Embed(ctx context.Context, req *perigee.EmbedRequest) (*perigee.Embeddings, error) {
	return h.current.Load().router.Embed(ctx, req)
}

func (h *house) Models(ctx context.Context) ([]perigee.Model, error) {
	return h.current.Load().router.Models(ctx)
}
