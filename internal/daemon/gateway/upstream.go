package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"perigee"
	"perigee/internal/account/pool"
	"perigee/internal/account/roster"
	"perigee/internal/langserver/supervisor"
	"perigee/internal/lib/terminal"
	"perigee/internal/lib/wire"
	"perigee/internal/simulator"
	"perigee/internal/store/config"
	"perigee/internal/upstream/antigravity"
	"perigee/internal/upstream/api"
	"perigee/internal/upstream/headless"
	"perigee/internal/upstream/ide"
)

// Abilities that an upstream may have besides those in package perigee. The gateway asks for these,
// never for a kind.
//
// The life cycle of an upstream, each step at most once: Start, calls, Drain when a reload or the
// end of the daemon has taken it out of force, the end of the last call, Close. Calls are over
// before Close, except for those that are still open at the end of the daemon: their contexts have
// ended. After a failed Start nothing else is called. An upstream that has been started is closed,
// also when the configuration that it was built for cannot be used.
type (
	// A starter has to be started before its first call, a child process for example. Start returns
	// when calls can be answered, or with an error after it has cleaned up. ctx is for the start
	// alone.
	starter interface {
		Start(ctx context.Context) error
	}
	// A drainer is an upstream with a Drain method, which is called when no new calls begin. Calls
	// that have begun may still reach it, also for the first time after Drain: in a failover. Drain
	// returns when the upstream has nothing else to do, or when ctx ends, which is at the end of
	// the daemon.
	drainer interface {
		Drain(ctx context.Context) error
	}
	// A closer has something to end after its last call, a child process for example. ctx ends
	// after CloseTime. An io.Closer is closed at the same point.
	closer interface {
		Close(ctx context.Context) error
	}
	// An accountFollower uses accounts of other upstreams, which are in force now.
	accountFollower interface{ AccountsInForce() }
	// A langserverReporter supervises a language server.
	langserverReporter interface{ Status() supervisor.Status }
	// A prober tests whether calls would be answered, beyond its list of models, in requests that cost
	// nothing. The models are those that it has listed.
	prober interface {
		Probe(ctx context.Context, models []perigee.Model) error
	}
	// A selfChecker returns, without a call, why no call can succeed; empty if calls can.
	selfChecker interface{ Unusable() string }
)

var (
	_ roster.QuotaReporter = (*antigravity.Upstream)(nil)
	_ selfChecker          = (*api.Upstream)(nil)
	_ prober               = (*api.Upstream)(nil)
)

// An Entry is one upstream and the configuration that it was built from.
type Entry struct {
	Config   config.Upstream
	Upstream perigee.Upstream
	Roster   *roster.Roster // of an upstream that has accounts
	Summary  func() string  // a summary that needs no call, for a person: "2 keys"

	// Within restricts a request for an account to the pools that calls to the upstream can use. If
	// nil, they can use every account.
	Within func(pool.Request) pool.Request

	limits  config.Limits
	calls   openCalls // that may reach it: they began while it was in force
	built   *routing  // that it was built for
	started bool
}

// A Builder makes the upstream that a configuration describes. It sets Upstream, Summary and, where
// there are accounts, Roster.
type Builder func(ctx context.Context, g *Gateway, e *Entry) error

// Builders returns the builders by kind.
func Builders() map[string]Builder {
	all := map[string]Builder{
		config.KindSimulator: buildSimulator, config.KindAntigravity: buildAntigravity,
		config.KindLangserver: buildLangserver, config.KindIDE: buildIDE,
	}
	for kind := range api.Providers {
		all[kind] = buildAPI
	}
	return all
}

// newEntry builds an upstream.
func (g *Gateway) newEntry(ctx context.Context, u config.Upstream, limits config.Limits) (*Entry, error) {
	build := g.opts.Builders[u.Kind]
	if build == nil {
		return nil, &ConfigError{fmt.Sprintf("upstream %s: this version of perigee cannot use kind %s", u.Name, u.Kind)}
	}
	e := &Entry{Config: u, limits: limits}
	if err := build(ctx, g, e); err != nil {
		e.closeRoster()
		return nil, fmt.Errorf("upstream %s: %w", u.Name, err)
	}
	if reporter, ok := e.Upstream.(roster.QuotaReporter); ok && e.Roster != nil {
		e.Roster.ReadQuotaFrom(reporter, !g.opts.Brief)
	}
	return e, nil
}

// start starts an upstream that was built.
func (e *Entry) start(ctx context.Context) error {
	if s, ok := e.Upstream.(starter); ok {
		err := s.Start(ctx)
		if missing, ok := errors.AsType[*headless.SetupError](err); ok {
			return &ConfigError{fmt.Sprintf("upstream %s: %v", e.Config.Name, missing)}
		}
		if err != nil {
			return fmt.Errorf("upstream %s: %w", e.Config.Name, err)
		}
	}
	e.started = true
	return nil
}

func (e *Entry) closeRoster() {
	if e.Roster != nil {
		e.Roster.Close()
	}
}

// buildAPI makes an upstream of a kind that has API keys.
func buildAPI(_ context.Context, g *Gateway, e *Entry) error {
	u, options := e.Config, g.apiOptions(e)
	options.URL, options.Keys, options.RoundRobin, options.Models = u.URL, u.Keys, u.Spread == "round_robin", u.Models
	options.FirstByte, options.Idle = u.FirstByte, u.Idle
	options.OwnFirstByte, options.OwnIdle = u.FirstByte != e.limits.FirstByte, u.Idle != e.limits.Idle
	options.Concurrency, options.Wait = u.Concurrency, u.Wait
	options.Header = make(http.Header)
	for name, value := range u.Headers {
		options.Header.Set(name, value.Reveal())
	}
	options.Members = api.Members{Set: rawMembers(u.Set), Default: rawMembers(u.Default), Drop: u.Drop}
	var err error
	if options.Transport, err = wire.NewProxyTransport(e.Config.Proxy); err != nil {
		return err
	}
	upstream := api.New(api.Providers[e.Config.Kind](e.Config), options)
	e.Upstream, e.Summary = upstream, upstream.Summary
	return nil
}

func rawMembers(members map[string]config.JSON) map[string]json.RawMessage {
	raw := make(map[string]json.RawMessage, len(members))
	for path, value := range members {
		raw[path] = json.RawMessage(value)
	}
	return raw
}

// buildSimulator makes an upstream that asks the simulator in the official API over pipes, so a
// call takes the way of a real one.
func buildSimulator(_ context.Context, g *Gateway, e *Entry) error {
	sim, err := g.simulator()
	if err != nil {
		return err
	}
	options := g.apiOptions(e)
	options.URL, options.Transport = "http://simulator", sim.Transport()
	options.Keys = []perigee.Secret{perigee.NewSecret("simulator")}
	e.Upstream = api.New(api.Gemini, options)
	e.Summary = func() string { return terminal.Number(len(simulator.Models()), "model", "models") }
	return nil
}

func (g *Gateway) apiOptions(e *Entry) api.Options {
	return api.Options{
		Name: e.Config.Name, UserAgent: "perigee/" + g.opts.Version,
		FirstByte: e.limits.FirstByte, Idle: e.limits.Idle, Logger: g.opts.Logger, Now: g.opts.Now,
	}
}

func buildIDE(_ context.Context, g *Gateway, e *Entry) error {
	u := e.Config
	e.Upstream = ide.New(ide.Options{
		Name: u.Name, Workspace: u.Workspace, Version: g.opts.Version, Logger: g.opts.Logger,
		Concurrency: u.Concurrency, Depth: u.Queue.Depth, Timeout: u.Queue.Timeout,
	})
	e.Summary = func() string { return "open windows" }
	return nil
}

func buildAntigravity(ctx context.Context, g *Gateway, e *Entry) error {
	gravity, err := g.buildRoster(ctx, e, e.Config)
	if err != nil {
		return err
	}
	e.Upstream = gravity
	e.Summary = func() string { return terminal.Number(len(e.Roster.SignIns()), "account", "accounts") }
	return nil
}

// buildRoster makes the accounts that a configuration describes, and the way to the gateway that
// they have in common.
func (g *Gateway) buildRoster(ctx context.Context, e *Entry, u config.Upstream) (*antigravity.Upstream, error) {
	options, err := AccountOptions(u, g.first.Interception, g.opts)
	if err != nil {
		return nil, err
	}
	u = u.ForAccounts()
	store, err := g.opts.Accounts(ctx)
	if err != nil {
		return nil, err
	}
	options.Feed = g.opts.Feed
	if e.Roster, err = roster.New(ctx, u, store, options); err != nil {
		return nil, err
	}
	if !g.opts.Brief {
		e.Roster.RestoreSessions(ctx)
	}
	return antigravity.New(antigravity.Options{
		Name: u.Name, Endpoints: slices.Clone(u.Endpoints), Accounts: e.Roster.Pool(), UserAgent: options.UserAgent,
		KeepThinking: u.KeepThinking, SessionRecovery: u.SessionRecovery,
		FirstByte: e.limits.FirstByte, Idle: e.limits.Idle, Transport: options.Transport, Logger: g.opts.Logger, Now: g.opts.Now,
	}), nil
}

// AccountOptions returns how an upstream with accounts is reached, for sign-in, refresh, quota and
// calls.
func AccountOptions(u config.Upstream, interception config.Interception, opts Options) (roster.Options, error) {
	options := roster.Options{
		Version: opts.Version, UserAgent: cmp.Or(u.UserAgent, antigravity.UserAgent(u.ClientVersion, opts.Version)),
		Transport: opts.Transport, Installed: opts.Installed, Now: opts.Now, Logger: opts.Logger,
	}
	if options.Transport != nil {
		return options, nil
	}
	var err error
	if u.Kind == config.KindLangserver { // its cloud is reached in one way, for accounts as for calls
		options.Transport, err = headless.NewTransport(interception, u.Proxy)
	} else {
		options.Transport, err = wire.NewProxyTransport(u.Proxy)
	}
	return options, err
}

// Unusable returns why the upstream cannot answer, as far as that is known without a call; empty if
// it can.
func (e *Entry) Unusable() string {
	if e.Roster != nil {
		if why := e.Roster.Unusable(); why != "" {
			return why
		}
	}
	if u, ok := e.Upstream.(selfChecker); ok {
		return u.Unusable()
	}
	return ""
}

// CloseTime is how long an upstream may take to close.
const CloseTime = 5 * time.Second

// end drains the upstream, waits for the last call and closes it. When ctx ends, it is closed with
// calls open. Its accounts are closed after the last call as well, since a failover may need the
// access token of another account. Meanwhile the upstream that replaces it may refresh the same
// accounts: LeaseRefresh lets one of them do so at a time.
func (e *Entry) end(ctx context.Context) error {
	if !e.started {
		e.closeRoster()
		return nil
	}
	var errs []error
	if u, ok := e.Upstream.(drainer); ok {
		errs = append(errs, u.Drain(ctx))
	}
	select {
	case <-e.calls.none():
	case <-ctx.Done():
	}
	e.closeRoster() // before the upstream, which it reads quota from
	switch u := e.Upstream.(type) {
	case closer:
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), CloseTime)
		defer cancel()
		errs = append(errs, u.Close(last))
	case io.Closer:
		errs = append(errs, u.Close())
	}
	return errors.Join(errs...)
}
