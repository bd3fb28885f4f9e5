package daemon

import (
	"context"
	"sync"

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
	b.house, err = newHouse(cfg, opts, sync.OnceValues(func() (*sqlstore.Accounts, error) {
		if err := ownDir(cfg.DataDir, opts.Logger); err != nil {
			return nil, noDataDir(err)
		}
		options := StoreOptions(cfg)
		options.Now, options.Logger = opts.Now, opts.Logger
		store, err := sqlstore.Open(ctx, options)
		if err != nil {
			return nil, err
		}
		b.store = store
		return openAccounts(ctx, cfg, store, opts)
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
