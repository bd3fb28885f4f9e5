package daemon

import (
	"context"

	"perigee/internal/daemon/gateway"
	"perigee/internal/store/config"
	"perigee/internal/store/datadir"
	"perigee/internal/store/sqlstore"
	"perigee/internal/store/vault"
)

// An offlineControl is the gateway for commands that work without a daemon: the same upstreams and
// accounts, but nothing listens and nothing is recorded.
type offlineControl struct {
	opts     Options
	gateway  *gateway.Gateway
	accounts accountsOpener
	store    *sqlstore.Store // nil until it is needed
}

func openOffline(ctx context.Context, opts Options) (o *offlineControl, err error) {
	opts = opts.complete()
	o = &offlineControl{opts: opts}
	cfg := opts.Loaded.Config
	o.accounts = openOnce(func(ctx context.Context) (*sqlstore.Accounts, error) {
		if err := o.openStore(ctx); err != nil {
			return nil, err
		}
		return openAccounts(ctx, cfg, o.store, opts)
	})
	options := opts.forUpstreams(o.accounts)
	options.Brief = true
	o.gateway, err = gateway.New(ctx, cfg, options)
	if err != nil {
		o.close()
		return nil, err
	}
	return o, nil
}

// openStore opens the store unless it is open.
func (o *offlineControl) openStore(ctx context.Context) (err error) {
	if o.store == nil {
		o.store, err = openStore(ctx, o.opts)
	}
	return err
}

// openStore opens the store of the loaded configuration for a command. The caller closes it.
func openStore(ctx context.Context, opts Options) (*sqlstore.Store, error) {
	cfg := opts.Loaded.Config
	if err := datadir.Secure(cfg.DataDir, opts.Logger); err != nil {
		return nil, err
	}
	options := StoreOptions(cfg)
	options.Now, options.Logger, options.Additive = opts.Now, opts.Logger, true
	return sqlstore.Open(ctx, options)
}

func (o *offlineControl) close() {
	if o.gateway != nil {
		ctx, cancel := context.WithTimeout(context.Background(), gateway.CloseTime)
		defer cancel()
		o.gateway.Close(ctx)
	}
	if o.store != nil {
		_ = o.store.Close()
	}
}

// openAccounts returns the sign-ins in a store, with the key that they are sealed with.
func openAccounts(ctx context.Context, cfg *config.Config, store *sqlstore.Store, opts Options) (*sqlstore.Accounts, error) {
	key, err := vault.Open(ctx, vault.Options{Dir: cfg.DataDir, Given: cfg.Store.SealKey, Logger: opts.Logger})
	if err != nil {
		return nil, err
	}
	return store.Accounts(key), nil
}

// openOnce opens something for the first caller, and returns it to all. Concurrent callers wait, at
// most until ctx ends. After a failure the next caller tries again.
func openOnce[T any](open func(context.Context) (*T, error)) func(context.Context) (*T, error) {
	turn := make(chan struct{}, 1)
	var opened *T
	return func(ctx context.Context) (*T, error) {
		select {
		case turn <- struct{}{}:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		defer func() { <-turn }()
		if opened != nil {
			return opened, nil
		}
		var err error
		opened, err = open(ctx)
		return opened, err
	}
}
