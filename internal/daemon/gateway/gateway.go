// Package gateway builds the upstreams of a configuration and routes calls to them: the
// configuration that is in force, and those that replace it while calls are open. It is the only
// package that imports all upstreams.
package gateway

import (
	"context"
	"iter"
	"log/slog"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"perigee"
	"perigee/internal/account/oauth"
	"perigee/internal/account/roster"
	"perigee/internal/route"
	"perigee/internal/route/hold"
	"perigee/internal/route/thoughtsig"
	"perigee/internal/simulator"
	"perigee/internal/store/config"
	"perigee/internal/store/sqlstore"
	"perigee/internal/upstream/headless"
)

// SimulatorName is the name of the built-in upstream.
const SimulatorName = "simulator"

// Options configure how upstreams are built.
type Options struct {
	Simulate  bool // answer from the simulator, whatever is configured
	Version   string
	Logger    *slog.Logger
	Now       func() time.Time
	Transport http.RoundTripper // for sign-in and the Antigravity gateway; nil for the network
	Installed *oauth.Installed  // one for all upstreams, before and after a reload
	Feed      *roster.Feed      // gets the changes of accounts of all upstreams
	// Recording records the calls that language servers make themselves; if nil, they are not
	// recorded.
	Recording *headless.Recording
	// Accounts returns the store of accounts. It is called when an upstream needs sign-ins.
	Accounts func(context.Context) (*sqlstore.Accounts, error)
	Brief    bool               // for one command: nothing runs in the background
	Builders map[string]Builder // by kind of upstream; Builders() if nil
}

// A Gateway has the routing in force, which a new configuration replaces while calls are open.
// It is the Upstream that everything in front of routing sees.
type Gateway struct {
	opts       Options
	first      *config.Config     // the configuration at the start
	signatures *thoughtsig.Memory // of all upstreams, also of those to come
	current    atomic.Pointer[routing]
	switching  sync.Mutex // held while current is replaced, and while a call begins

	base     context.Context // ends with close
	cancel   context.CancelFunc
	retiring sync.WaitGroup // upstreams that are no longer in force and are being ended

	// The simulator is one for all routings, so that a reload does not cut its streams.
	simulator func() (*simulator.Server, error)
	closeSim  func()

	interception      *headless.Interception         // of language servers
	standInCloud      func() (url string, err error) // of stand-ins of language servers
	closeStandInCloud func()
}

// A routing is the upstreams of one configuration and the way to them.
type routing struct {
	router  *route.Router
	entries []*Entry
	builtin bool // the simulator answers because nothing else is configured
}

// New builds the upstreams, which reads a store that may be remote: it ends with ctx. After an
// error, Close ends the upstreams that were built.
func New(ctx context.Context, cfg *config.Config, opts Options) (*Gateway, error) {
	if opts.Builders == nil {
		opts.Builders = Builders()
	}
	g := &Gateway{opts: opts, first: cfg, closeSim: func() {}, signatures: thoughtsig.NewMemory(thoughtsig.Options{
		Shared: !cfg.Store.URL.IsZero(), Now: opts.Now, Logger: opts.Logger,
	})}
	g.base, g.cancel = context.WithCancel(context.WithoutCancel(ctx))
	g.interception = headless.NewInterception(headless.InterceptionOptions{
		Interception: cfg.Interception, DataDir: cfg.DataDir, Logger: opts.Logger, Now: opts.Now,
	})
	g.simulator = sync.OnceValues(func() (*simulator.Server, error) {
		sim, err := simulator.New(simulator.Options{Now: opts.Now, Logger: opts.Logger, CallLevel: slog.LevelDebug, Seed: "perigee"})
		if err == nil {
			g.closeSim = func() { _ = sim.Close() }
		}
		return sim, err
	})
	g.standInCloud = sync.OnceValues(func() (url string, err error) {
		url, g.closeStandInCloud, err = simulator.Listen(simulator.Options{
			Now: opts.Now, Logger: opts.Logger, CallLevel: slog.LevelDebug, Seed: "perigee", AnyToken: true,
		})
		return url, err
	})
	return g, g.Rebuild(ctx, cfg)
}

// Rebuild puts a new routing in force. Upstreams with an unchanged configuration stay, with their
// connections and the state of their keys.
func (g *Gateway) Rebuild(ctx context.Context, cfg *config.Config) error {
	old := g.current.Load()
	if old == nil {
		old = &routing{}
	}
	next, err := g.newRouting(ctx, cfg, old)
	if err != nil {
		return err
	}
	g.switching.Lock()
	g.current.Store(next)
	g.switching.Unlock()
	for _, e := range next.entries {
		if u, ok := e.Upstream.(accountFollower); ok {
			u.AccountsInForce()
		}
	}
	g.retireExcept(old, next)
	return nil
}

// acquire returns the routing in force for one call. None of its upstreams is closed until release
// is called, not even one that the call reaches late, in a failover.
func (g *Gateway) acquire() (r *routing, release func()) {
	g.switching.Lock()
	defer g.switching.Unlock()
	r = g.current.Load()
	for _, e := range r.entries {
		e.calls.begin()
	}
	return r, func() {
		for _, e := range r.entries {
			e.calls.end()
		}
	}
}

// newRouting builds the upstreams that old does not have. After an error those that it has built
// are ended.
func (g *Gateway) newRouting(ctx context.Context, cfg *config.Config, old *routing) (_ *routing, err error) {
	upstreams := cfg.Upstreams
	r := &routing{builtin: g.opts.Simulate || len(upstreams) == 0}
	defer func() {
		if err != nil {
			g.retireExcept(r, old)
		}
	}()
	rules := cfg.Models.Routes
	if r.builtin {
		upstreams = []config.Upstream{{Name: SimulatorName, Kind: config.KindSimulator}}
		rules = nil // they name upstreams that are not asked
	}
	options := route.Options{
		Default: cfg.Models.Default, Fallback: cfg.Models.Fallback, Aliases: cfg.Models.Aliases, Logger: g.opts.Logger, Now: g.opts.Now,
		Offered: map[string][]string{}, Own: map[string]bool{}, Base: g.base,
	}
	// No upstream needs the other limits.
	limits := config.Limits{FirstByte: cfg.Limits.FirstByte, Idle: cfg.Limits.Idle}
	fresh, err := g.newEntries(ctx, r, old, upstreams, limits)
	if err != nil {
		return nil, err
	}
	for _, e := range fresh { // after all were built, since one may use the accounts of another
		if err := e.start(ctx); err != nil {
			return nil, err
		}
	}
	for _, e := range r.entries {
		u := e.Config
		upstream := hold.AtStopSequences(g.signatures.Around(e.Upstream))
		options.Targets = append(options.Targets, route.Target{Name: u.Name, Upstream: upstream})
		options.Offered[u.Name] = u.Models
		options.Own[u.Name] = config.KindOf(u.Kind).OwnModels
	}
	for _, rule := range rules {
		when := route.Condition{Text: rule.When.String(), Agent: rule.When.Agent, Images: rule.When.Images, Tools: rule.When.Tools}
		if rule.When.InputTokens.Operator != "" {
			when.InputTokens = rule.When.InputTokens.Holds
		}
		options.Rules = append(options.Rules, route.Rule{Match: rule.Match, When: when, To: rule.To, Model: rule.Model})
	}
	r.router, err = route.New(options)
	return r, err
}

// newEntries fills a routing with upstreams, and returns those that old does not have.
func (g *Gateway) newEntries(ctx context.Context, r, old *routing, list []config.Upstream, limits config.Limits) (
	fresh []*Entry, err error) {
	for _, u := range list {
		e := old.find(u, limits)
		if e == nil {
			if e, err = g.newEntry(ctx, u, limits); err != nil {
				return nil, err
			}
			e.built = r
			fresh = append(fresh, e)
		}
		r.entries = append(r.entries, e)
	}
	return fresh, nil
}

// A ConfigError means that a valid configuration cannot be used.
type ConfigError struct{ Message string }

func (e *ConfigError) Error() string { return e.Message }

// find returns the upstream that was built from a configuration, or nil if there is none.
func (r *routing) find(u config.Upstream, limits config.Limits) *Entry {
	if e := r.entry(u.Name); e != nil && reflect.DeepEqual(e.Config, u) && reflect.DeepEqual(e.limits, limits) {
		return e
	}
	return nil
}

// entry returns the upstream of a name, or nil if there is none.
func (r *routing) entry(name string) *Entry {
	for _, e := range r.entries {
		if e.Config.Name == name {
			return e
		}
	}
	return nil
}

// retireExcept ends the upstreams that another routing does not use as well, in the background:
// open calls are not disturbed.
func (g *Gateway) retireExcept(r, other *routing) {
	for _, e := range r.entries {
		if !slices.Contains(other.entries, e) {
			g.retiring.Go(func() { g.end(g.base, e) })
		}
	}
}

// end ends an upstream and logs errors.
func (g *Gateway) end(ctx context.Context, e *Entry) {
	if err := e.end(ctx); err != nil {
		g.opts.Logger.Warn("upstream not closed cleanly", "upstream", e.Config.Name, "error", err)
	}
}

// Close ends all upstreams. Draining has until ctx ends.
func (g *Gateway) Close(ctx context.Context) {
	g.cancel()
	if r := g.current.Load(); r != nil {
		for _, e := range r.entries {
			g.end(ctx, e)
		}
	}
	g.retiring.Wait()
	if err := g.interception.Close(ctx); err != nil {
		g.opts.Logger.Warn("intercepting proxy not closed cleanly", "error", err)
	}
	g.closeSim()
	if g.closeStandInCloud != nil {
		g.closeStandInCloud()
	}
}

// Signatures returns the thought signatures of all upstreams.
func (g *Gateway) Signatures() *thoughtsig.Memory { return g.signatures }

// Simulated reports whether the simulator answers because no upstream is configured or wanted.
func (g *Gateway) Simulated() bool { return g.current.Load().builtin }

// Model returns the model that a client's name for it resolves to now.
func (g *Gateway) Model(name string) string { return g.current.Load().router.Model(name) }

// Names returns the names by which the patterns of a key allow the model of a client's name. The last
// one is the model's. It may wait for a list of models, as the call does.
func (g *Gateway) Names(ctx context.Context, name string) []string {
	return g.current.Load().router.Names(ctx, name)
}

// Upstreams returns the names of the upstreams for a client's name of a model, in the order in which
// they are tried.
func (g *Gateway) Upstreams(name string) []string { return g.current.Load().router.Upstreams(name) }

// ForgetModels has the lists of models asked for again when they are needed, because accounts have
// changed.
func (g *Gateway) ForgetModels() { g.current.Load().router.ForgetModels() }

// Missing returns the error about a model that no upstream has.
func (g *Gateway) Missing(ctx context.Context, name string) (unsure bool, err error) {
	r, release := g.acquire()
	defer release()
	return r.router.Missing(ctx, name)
}

func (g *Gateway) Stream(ctx context.Context, req *perigee.Request) iter.Seq2[perigee.Event, error] {
	return func(yield func(perigee.Event, error) bool) {
		r, release := g.acquire()
		defer release()
		r.router.Stream(ctx, req)(yield)
	}
}

func (g *Gateway) CountTokens(ctx context.Context, req *perigee.Request) (*perigee.TokenCount, error) {
	r, release := g.acquire()
	defer release()
	return r.router.CountTokens(ctx, req)
}

func (g *Gateway) Embed(ctx context.Context, req *perigee.EmbedRequest) (*perigee.Embeddings, error) {
	r, release := g.acquire()
	defer release()
	return r.router.Embed(ctx, req)
}

func (g *Gateway) Models(ctx context.Context) ([]perigee.Model, error) {
	r, release := g.acquire()
	defer release()
	return r.router.Models(ctx)
}

// Forwards reports whether the upstream that would be asked first gets the client's own bytes.
func (g *Gateway) Forwards(ctx context.Context, req *perigee.Request) bool {
	r, release := g.acquire()
	defer release()
	return r.router.Forwards(ctx, req)
}

func (g *Gateway) CallResponse(ctx context.Context, req *perigee.ResponseCall, answer func(perigee.RawAnswer) error) error {
	r, release := g.acquire()
	defer release()
	return r.router.CallResponse(ctx, req, answer)
}

func (g *Gateway) SendRaw(ctx context.Context, req *perigee.RawRequest, answer func(perigee.RawAnswer) error) error {
	r, release := g.acquire()
	defer release()
	return r.router.SendRaw(ctx, req, answer)
}
