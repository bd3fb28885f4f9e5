package daemon

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"perigee"
	"perigee/internal/config"
	"perigee/internal/daemon/remote"
	"perigee/internal/datadir"
	"perigee/internal/headless"
	"perigee/internal/langserver"
	"perigee/internal/langserver/probe"
	"perigee/internal/langserver/signin"
	"perigee/internal/sqlstore"
)

// buildLangserver makes the accounts of a language server, which commands use without a daemon, too, and the language server itself.
func buildLangserver(ctx context.Context, g *gateway, e *upstreamEntry) error {
	u := e.config
	if u.Binary == headless.StandIn && u.CloudURL == "" {
		cloud, err := g.standInCloud()
		if err != nil {
			return err
		}
		u.CloudURL = cloud
	}
	e.summary = func() string { return "language server" }
	models := func(ctx context.Context) ([]perigee.Model, error) { return g.modelsOf(ctx, u.AccountsFrom) }
	if u.HasAccounts() {
		gravity, err := g.buildRoster(ctx, e, u)
		if err != nil {
			return err
		}
		models = gravity.Models
		e.roster.ReadQuotaFrom(gravity, false)
		e.summary = func() string { return count(len(e.roster.SignIns()), "account") }
	}
	command, err := standIn()
	if err != nil {
		return err
	}
	cfg := g.opts.Loaded.Config
	options := headless.Options{
		Upstream: u, DataDir: cfg.DataDir, StandIn: command,
		Accounts: func() signin.Accounts { return g.accountsOf(e) }, AccountsOf: cmp.Or(u.AccountsFrom, u.Name), Feed: g.opts.AccountFeed,
		Cloud: u.CloudURL, Models: models, Transport: g.opts.Transport, Telemetry: cfg.Interception.Telemetry, Interception: g.interception,
		FirstByte: e.limits.FirstByte, Idle: e.limits.Idle, Logger: g.opts.Logger, Now: g.opts.Now,
	}
	switch {
	case u.Attach:
		e.upstream = headless.NewAttached(options)
	case g.brief:
		e.upstream = headless.NotRunning{Upstream: u.Name}
	default:
		if options.Transport == nil {
			if options.Transport, err = headless.NewTransport(cfg.Interception, u.Proxy); err != nil {
				return err
			}
		}
		e.upstream = headless.NewUpstream(options)
	}
	return nil
}

// standIn is the command of the stand-in.
func standIn() ([]string, error) {
	self, err := os.Executable()
	return []string{self, "simulate", "langserver"}, err
}

// modelsOf lists the models of an upstream that is in force.
func (g *gateway) modelsOf(ctx context.Context, upstream string) ([]perigee.Model, error) {
	r, release := g.acquire()
	defer release()
	for _, e := range r.entries {
		if lister, ok := e.upstream.(perigee.ModelLister); ok && e.config.Name == upstream {
			return lister.Models(ctx)
		}
	}
	return nil, perigee.Errorf(perigee.ClassNotFound, "no upstream %q", upstream)
}

// accountsOf returns the accounts that a language server is signed in with, as they are in force; nil: there are none.
func (g *gateway) accountsOf(e *upstreamEntry) signin.Accounts {
	if e.roster != nil {
		return e.roster
	}
	r := g.current.Load()
	if r == nil || !slices.Contains(r.entries, e) {
		r = e.built
	}
	for _, other := range r.entries {
		if other.config.Name == e.config.AccountsFrom && other.roster != nil {
			return other.roster
		}
	}
	return nil
}

// Langservers asks the running daemon for its language servers. It returns ErrNotRunning where there is none.
func Langservers(ctx context.Context, cfg *config.Config) ([]perigee.LangserverRow, error) {
	return Ask[[]perigee.LangserverRow](ctx, cfg, remote.LangserverPath)
}

// langservers lists the language servers that are in force.
func (g *gateway) langservers() (list []perigee.LangserverRow) {
	for _, e := range g.current.Load().entries {
		if server, ok := e.upstream.(langserverReporter); ok {
			s := server.Status()
			list = append(list, perigee.LangserverRow{
				Upstream: e.config.Name, State: string(s.State), PID: s.PID, HTTPPort: s.HTTPPort, HTTPSPort: s.HTTPSPort,
				Version: s.Version, Profile: s.Profile, Account: s.Account, Restarts: s.Restarts,
				Since: s.Since.UTC().Truncate(time.Second), LastExit: s.LastExit, Memory: s.Memory,
			})
		}
	}
	return list
}

// LangserverCommand is the command that an upstream of kind langserver runs, without arguments of a language server.
func LangserverCommand(u config.Upstream) ([]string, error) {
	if u.Binary == headless.StandIn {
		return standIn()
	}
	path, err := probe.Find(u.Binary)
	return []string{path}, err
}

// RunLangserver runs one language server with its accounts, and no gateway, until ctx ends or the language server has failed. ready is
// called each time that it can answer.
func RunLangserver(ctx context.Context, opts Options, upstream string, ready func(langserver.Status)) error {
	opts = opts.complete()
	cfg := *opts.Loaded.Config
	chosen, err := cfg.Langserver(upstream)
	if err != nil {
		return &ConfigError{err.Error()}
	}
	cfg.Upstreams = slices.DeleteFunc(slices.Clone(cfg.Upstreams), func(u config.Upstream) bool {
		return u.Name != chosen.Name && u.Name != chosen.AccountsFrom
	})
	cfg.Models = config.Models{}
	if err := datadir.Secure(cfg.DataDir, opts.Logger); err != nil {
		return err
	}
	lock, err := datadir.Lock(ctx, cfg.DataDir)
	if err != nil {
		return err
	}
	defer lock.Close()
	options := StoreOptions(&cfg)
	options.Now, options.Logger = opts.Now, opts.Logger
	store, err := sqlstore.Open(ctx, options)
	if err != nil {
		return err
	}
	defer store.Close()
	g, err := newGateway(ctx, &cfg, opts, openOnce(func(ctx context.Context) (*sqlstore.Accounts, error) {
		return openAccounts(ctx, &cfg, store, opts)
	}), false)
	if err != nil {
		return err
	}
	defer func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), upstreamCloseTime)
		defer cancel()
		g.close(last)
	}()
	for _, e := range g.current.Load().entries {
		if u, ok := e.upstream.(*headless.Upstream); ok {
			return u.Run(ctx, ready)
		}
	}
	return fmt.Errorf("upstream %s runs no language server", chosen.Name)
}
