package daemon

import (
	"context"
	"fmt"
	"slices"

	"perigee"
	"perigee/internal/daemon/gateway"
	"perigee/internal/daemon/remote"
	"perigee/internal/langserver/probe"
	"perigee/internal/langserver/supervisor"
	"perigee/internal/store/config"
	"perigee/internal/store/datadir"
	"perigee/internal/store/sqlstore"
	"perigee/internal/upstream/headless"
)

// Langservers asks the running daemon for its language servers. It returns ErrNotRunning where
// there is none.
func Langservers(ctx context.Context, cfg *config.Config) ([]perigee.LangserverRow, error) {
	return Ask[[]perigee.LangserverRow](ctx, cfg, remote.LangserverPath)
}

// LangserverCommand returns the command that an upstream of kind langserver runs, without arguments
// of a language server.
func LangserverCommand(u config.Upstream) ([]string, error) {
	if u.Binary == headless.StandIn {
		return gateway.StandIn()
	}
	path, err := probe.Find(u.Binary)
	return []string{path}, err
}

// RunLangserver runs the language server of a configured upstream with its accounts, and no
// gateway, until ctx ends or the language server has failed. ready is called each time that it can
// answer.
func RunLangserver(ctx context.Context, opts Options, chosen config.Upstream, ready func(supervisor.Status)) error {
	opts = opts.complete()
	cfg := *opts.Loaded.Config
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
	g, err := gateway.New(ctx, &cfg, opts.forUpstreams(openOnce(func(ctx context.Context) (*sqlstore.Accounts, error) {
		return openAccounts(ctx, &cfg, store, opts)
	})))
	if err != nil {
		return err
	}
	defer func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), gateway.CloseTime)
		defer cancel()
		g.Close(last)
	}()
	for _, e := range g.Entries() {
		if u, ok := e.Upstream.(*headless.Upstream); ok {
			return u.Run(ctx, ready)
		}
	}
	return fmt.Errorf("upstream %s runs no language server", chosen.Name)
}
