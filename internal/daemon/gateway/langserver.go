package gateway

import (
	"cmp"
	"context"
	"os"
	"slices"
	"time"

	"perigee"
	"perigee/internal/account/pool"
	"perigee/internal/account/roster"
	"perigee/internal/lib/terminal"
	"perigee/internal/upstream/headless"
)

// buildLangserver makes the accounts of a language server, which commands use without a daemon,
// too, and the language server itself.
func buildLangserver(ctx context.Context, g *Gateway, e *Entry) error {
	u := e.Config
	if u.Binary == headless.StandIn && u.CloudURL == "" {
		cloud, err := g.standInCloud()
		if err != nil {
			return err
		}
		u.CloudURL = cloud
	}
	e.Summary = func() string { return "language server" }
	e.Within = func(req pool.Request) pool.Request { return headless.Within(u, req) }
	models := func(ctx context.Context) ([]perigee.Model, error) { return g.modelsOf(ctx, u.AccountsFrom) }
	if u.HasAccounts() {
		gravity, err := g.buildRoster(ctx, e, u)
		if err != nil {
			return err
		}
		models = gravity.Models
		e.Roster.ReadQuotaFrom(gravity, !g.opts.Brief)
		e.Summary = func() string { return terminal.Number(len(e.Roster.SignIns()), "account", "accounts") }
	}
	command, err := StandIn()
	if err != nil {
		return err
	}
	cfg := g.first
	options := headless.Options{
		Upstream: u, DataDir: cfg.DataDir, StandIn: command,
		Accounts: func() headless.Accounts { return g.accountsOf(e) }, AccountsOf: cmp.Or(u.AccountsFrom, u.Name), Feed: g.opts.Feed,
		Cloud: u.CloudURL, Models: models, Transport: g.opts.Transport, Telemetry: cfg.Interception.Telemetry, Interception: g.interception,
		Recording: g.opts.Recording,
		FirstByte: e.limits.FirstByte, Idle: e.limits.Idle, Logger: g.opts.Logger, Now: g.opts.Now,
	}
	switch {
	case u.Attach:
		e.Upstream = headless.NewAttached(options)
	case g.opts.Brief:
		e.Upstream = headless.NotRunning{Upstream: u.Name}
	default:
		if options.Transport == nil {
			if options.Transport, err = headless.NewTransport(cfg.Interception, u.Proxy); err != nil {
				return err
			}
		}
		e.Upstream = headless.NewUpstream(options)
	}
	return nil
}

// StandIn returns the command of the stand-in.
func StandIn() ([]string, error) {
	self, err := os.Executable()
	return []string{self, "simulate", "langserver"}, err
}

// modelsOf lists the models of an upstream that is in force.
func (g *Gateway) modelsOf(ctx context.Context, upstream string) ([]perigee.Model, error) {
	r, release := g.acquire()
	defer release()
	if e := r.entry(upstream); e != nil {
		if lister, ok := e.Upstream.(perigee.ModelLister); ok {
			return lister.Models(ctx)
		}
	}
	return nil, perigee.Errorf(perigee.ClassNotFound, "no upstream %q", upstream)
}

// accountsOf returns the accounts in force that a language server is signed in with; nil if there
// are none.
func (g *Gateway) accountsOf(e *Entry) headless.Accounts {
	r := g.current.Load()
	if r == nil || !slices.Contains(r.entries, e) {
		r = e.built
	}
	if roster := r.rosterOf(e); roster != nil {
		return roster
	}
	return nil
}

// rosterOf returns the accounts that calls to an upstream lease; nil if there is none.
func (r *routing) rosterOf(e *Entry) *roster.Roster {
	if e.Roster != nil || e.Config.AccountsFrom == "" {
		return e.Roster
	}
	if other := r.entry(e.Config.AccountsFrom); other != nil {
		return other.Roster
	}
	return nil
}

// ProxyAddress returns where the intercepting proxy of language servers listens; empty if it is not
// open.
func (g *Gateway) ProxyAddress() string { return g.interception.Address() }

// Langservers lists the language servers that are in force.
func (g *Gateway) Langservers() (list []perigee.LangserverRow) {
	for _, e := range g.current.Load().entries {
		if server, ok := e.Upstream.(langserverReporter); ok {
			s := server.Status()
			list = append(list, perigee.LangserverRow{
				Upstream: e.Config.Name, State: string(s.State), PID: s.PID, HTTPPort: s.HTTPPort, HTTPSPort: s.HTTPSPort,
				Version: s.Version, Profile: s.Profile, Account: s.Account, Restarts: s.Restarts,
				Since: s.Since.UTC().Truncate(time.Second), LastExit: s.LastExit, Memory: s.Memory,
			})
		}
	}
	return list
}
