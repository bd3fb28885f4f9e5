package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"perigee"
	"perigee/internal/accounts"
	"perigee/internal/config"
	"perigee/internal/headless"
	"perigee/internal/ide"
	"perigee/internal/langserver"
	"perigee/internal/simulator"
	"perigee/internal/upstream/antigravity"
	"perigee/internal/upstream/gemini"
	"perigee/internal/upstream/wire"
)

// Abilities that an upstream may have besides those in package perigee. The daemon asks for these, never for a kind.
//
// The life cycle of an upstream, each step at most once: Start, calls, Drain when a reload or the end of the daemon has taken it out of
// force, the end of the last call, Close. Calls are over before Close, except for those that are still open at the end of the daemon:
// their contexts have ended. After a failed Start nothing else is called. An upstream that has been started is closed, also when
// the configuration that it was built for cannot be used.
type (
	// A starter has to be started before its first call, a child process for example. Start returns when calls can be answered, or
	// with an error after it has cleaned up. ctx is for the start alone.
	starter interface {
		Start(ctx context.Context) error
	}
	// A drainer is told that no new calls begin. Those that have begun may still reach it, also for the first time after Drain: in
	// a failover. Drain returns when the upstream has nothing else to do, or when ctx ends, which is at the end of the daemon.
	drainer interface {
		Drain(ctx context.Context) error
	}
	// A closer has something to end after its last call, a child process for example. ctx ends after upstreamCloseTime. An io.Closer
	// is closed at the same point.
	closer interface {
		Close(ctx context.Context) error
	}
	// A requestEncoder writes every request anew, so the thought signatures of requests in its own dialect are restored as well.
	requestEncoder interface{ EncodesEveryRequest() }
	// An accountFollower uses accounts of other upstreams, which are in force now.
	accountFollower interface{ AccountsInForce() }
	// A langserverReporter supervises a language server.
	langserverReporter interface{ Status() langserver.Status }
	// A selfChecker knows without a call why no call can succeed; empty: calls can.
	selfChecker interface{ Unusable() string }
)

var (
	_ requestEncoder         = (*antigravity.Upstream)(nil)
	_ accounts.QuotaReporter = (*antigravity.Upstream)(nil)
	_ selfChecker            = (*gemini.Upstream)(nil)
)

// An upstreamEntry is one upstream and the configuration that it was built from.
type upstreamEntry struct {
	config   config.Upstream
	limits   config.Limits
	upstream perigee.Upstream
	calls    sync.WaitGroup   // that may reach it: they began while it was in force
	roster   *accounts.Roster // of an upstream that has accounts
	summary  func() string    // what is known without a call, for a person: "2 keys"
	built    *routing         // that it was built for
	started  bool
}

// A builder makes the upstream that a configuration describes. It sets upstream, summary and, where there are accounts, roster.
type builder func(ctx context.Context, g *gateway, e *upstreamEntry) error

// builders returns the builders by kind.
func builders() map[string]builder {
	return map[string]builder{
		config.KindGemini: buildGemini, config.KindSimulator: buildSimulator, config.KindAntigravity: buildAntigravity,
		config.KindLangserver: buildLangserver, config.KindIDE: buildIDE,
	}
}

// newEntry builds an upstream.
func (g *gateway) newEntry(ctx context.Context, u config.Upstream, limits config.Limits) (*upstreamEntry, error) {
	build := g.opts.builders[u.Kind]
	if build == nil {
		return nil, &ConfigError{fmt.Sprintf("upstream %s: this version of perigee cannot use kind %s", u.Name, u.Kind)}
	}
	e := &upstreamEntry{config: u, limits: limits}
	if err := build(ctx, g, e); err != nil {
		e.closeRoster()
		return nil, fmt.Errorf("upstream %s: %w", u.Name, err)
	}
	if reporter, ok := e.upstream.(accounts.QuotaReporter); ok && e.roster != nil {
		e.roster.ReadQuotaFrom(reporter, !g.brief)
	}
	return e, nil
}

// start starts an upstream that was built.
func (e *upstreamEntry) start(ctx context.Context) error {
	if s, ok := e.upstream.(starter); ok {
		err := s.Start(ctx)
		if missing, ok := errors.AsType[*headless.SetupError](err); ok {
			return &ConfigError{fmt.Sprintf("upstream %s: %v", e.config.Name, missing)}
		}
		if err != nil {
			return fmt.Errorf("upstream %s: %w", e.config.Name, err)
		}
	}
	e.started = true
	return nil
}

func (e *upstreamEntry) closeRoster() {
	if e.roster != nil {
		e.roster.Close()
	}
}

func buildGemini(_ context.Context, g *gateway, e *upstreamEntry) error {
	options := g.geminiOptions(e)
	options.URL, options.Keys = e.config.URL, e.config.Keys
	var err error
	if options.Transport, err = wire.NewProxyTransport(e.config.Proxy); err != nil {
		return err
	}
	e.upstream = gemini.New(options)
	e.summary = func() string { return count(len(options.Keys), "key") }
	return nil
}

// buildSimulator makes an upstream that asks the simulator in the official API over pipes, so a call takes the way of a real one.
func buildSimulator(_ context.Context, g *gateway, e *upstreamEntry) error {
	sim, err := g.simulator()
	if err != nil {
		return err
	}
	options := g.geminiOptions(e)
	options.URL, options.Transport = "http://simulator", sim.Transport()
	options.Keys = []perigee.Secret{perigee.NewSecret("simulator")}
	e.upstream = gemini.New(options)
	e.summary = func() string { return count(len(simulator.Models()), "model") }
	return nil
}

func (g *gateway) geminiOptions(e *upstreamEntry) gemini.Options {
	return gemini.Options{
		Name: e.config.Name, UserAgent: "perigee/" + g.opts.Version,
		FirstByte: e.limits.FirstByte, Idle: e.limits.Idle, Logger: g.opts.Logger, Now: g.opts.Now,
	}
}

func buildIDE(_ context.Context, g *gateway, e *upstreamEntry) error {
	u := e.config
	e.upstream = ide.New(ide.Options{
		Name: u.Name, Workspace: u.Workspace, Version: g.opts.Version, Logger: g.opts.Logger,
		Concurrency: u.Concurrency, Depth: u.Queue.Depth, Timeout: u.Queue.Timeout,
	})
	e.summary = func() string { return "open windows" }
	return nil
}

func buildAntigravity(ctx context.Context, g *gateway, e *upstreamEntry) error {
	gravity, err := g.buildRoster(ctx, e, e.config)
	if err != nil {
		return err
	}
	e.upstream = gravity
	e.summary = func() string { return count(len(e.roster.SignIns()), "account") }
	return nil
}

// buildRoster makes the accounts that a configuration describes, and the way to the gateway that they have in common.
func (g *gateway) buildRoster(ctx context.Context, e *upstreamEntry, u config.Upstream) (*antigravity.Upstream, error) {
	options, err := accountOptions(u, g.opts)
	if err != nil {
		return nil, err
	}
	u = u.ForAccounts()
	store, err := g.accounts(ctx)
	if err != nil {
		return nil, err
	}
	options.Feed = g.opts.AccountFeed
	if e.roster, err = accounts.New(ctx, u, store, options); err != nil {
		return nil, err
	}
	if !g.brief {
		e.roster.RestoreSessions(ctx)
	}
	return antigravity.New(antigravity.Options{
		Name: u.Name, Endpoints: slices.Clone(u.Endpoints), Accounts: e.roster.Pool(), UserAgent: options.UserAgent,
		KeepThinking: u.KeepThinking, SessionRecovery: u.SessionRecovery,
		FirstByte: e.limits.FirstByte, Idle: e.limits.Idle, Transport: options.Transport, Logger: g.opts.Logger, Now: g.opts.Now,
	}), nil
}

// accountOptions say how an upstream with accounts is reached, for sign-in, refresh, quota and calls alike.
func accountOptions(u config.Upstream, opts Options) (accounts.Options, error) {
	options := accounts.Options{
		Version: opts.Version, UserAgent: cmp.Or(u.UserAgent, antigravity.UserAgent(u.ClientVersion, opts.Version)),
		Transport: opts.Transport, Installed: opts.installed, Now: opts.Now, Logger: opts.Logger,
	}
	if options.Transport != nil {
		return options, nil
	}
	var err error
	if u.Kind == config.KindLangserver { // its cloud is reached in one way, for accounts as for calls
		options.Transport, err = headless.NewTransport(opts.Loaded.Config.Interception, u.Proxy)
	} else {
		options.Transport, err = wire.NewProxyTransport(u.Proxy)
	}
	return options, err
}

// unusable says why the upstream cannot answer, as far as that is known without a call; empty: it can.
func (e *upstreamEntry) unusable() string {
	if e.roster != nil {
		if why := e.roster.Unusable(); why != "" {
			return why
		}
	}
	if u, ok := e.upstream.(selfChecker); ok {
		return u.Unusable()
	}
	return ""
}

// upstreamCloseTime is how long an upstream may take to close.
const upstreamCloseTime = 5 * time.Second

// end drains the upstream, waits for the last call and closes it. When ctx ends, it is closed with calls open. Its accounts are
// closed after the last call as well, since a failover may need the access token of another account. Meanwhile the upstream that
// replaces it may refresh the same accounts: LeaseRefresh lets one of them do so at a time.
func (e *upstreamEntry) end(ctx context.Context) error {
	if !e.started {
		e.closeRoster()
		return nil
	}
	var errs []error
	if u, ok := e.upstream.(drainer); ok {
		errs = append(errs, u.Drain(ctx))
	}
	over := make(chan struct{})
	go func() { e.calls.Wait(); close(over) }()
	select {
	case <-over:
	case <-ctx.Done():
	}
	e.closeRoster() // before the upstream, which it reads quota from
	switch u := e.upstream.(type) {
	case closer:
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), upstreamCloseTime)
		defer cancel()
		errs = append(errs, u.Close(last))
	case io.Closer:
		errs = append(errs, u.Close())
	}
	return errors.Join(errs...)
}
