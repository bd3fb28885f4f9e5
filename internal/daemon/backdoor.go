package daemon

import (
	"context"

	"perigee/internal/config"
	"perigee/internal/seal"
	"perigee/internal/sqlstore"
)

// A backDoor is the house as commands use it that work without a daemon: the same upstreams and accounts, but nothing
// listens and nothing is recorded.
type backDoor struct {
	house *house
	store *sqlstore.Store // nil until somebody needs it
}

func openBackDoor(ctx context.Context, opts Options) (b *backDoor, err error) {
	opts = opts.complete()
	b = &backDoor{}
	cfg := opts.Loaded.Config
	b.house, err = newHouse(ctx, cfg, opts, openOnce(func(ctx context.Context) (*sqlstore.Accounts, error) {
		if err := ownDir(cfg.DataDir, opts.Logger); err != nil {
			return nil, noDataDir(err)
		}
		options := StoreOptions(cfg)
		options.Now, options.Logger = opts.Now, opts.Logger
		if b.store == nil { // or else it is open since there was no key
			store, err := sqlstore.Open(ctx, options)
			if err != nil {
				return nil, err
			}
			b.store = store
		}
		return openAccounts(ctx, cfg, b.store, opts)
	}), true)
	if err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

func (b *backDoor) close() {
	if b.house != nil {
		b.house.close()
	}
	if b.store != nil {
		_ = b.store.Close()
	}
}

// openAccounts returns the sign-ins in a store, with the key that they are sealed with.
func openAccounts(ctx context.Context, cfg *config.Config, store *sqlstore.Store, opts Options) (*sqlstore.Accounts, error) {
	key, err := seal.Open(ctx, seal.Options{Dir: cfg.DataDir, Given: cfg.Store.SealKey, Logger: opts.Logger})
	if err != nil {
		return nil, err
	}
	return store.Accounts(key), nil
}

// openOnce opens something for whoever asks first, and gives it to all. Who comes meanwhile waits, at most until ctx ends.
// What could not be opened, for whatever reason, the next one tries again.
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
