package main

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"perigee"
	"perigee/internal/config"
	"perigee/internal/daemon"
	"perigee/internal/sqlstore"
)

// readRecorded asks the running daemon, which knows of calls that are not on disk yet, and otherwise reads the store itself.
// Where nothing was ever recorded there is nothing.
func readRecorded[T any](ctx context.Context, env *environment, cfg *config.Config, path string, read func(*sqlstore.Store) (T, error)) (found T, err error) {
	if err = daemon.Ask(ctx, cfg, path, &found); !errors.Is(err, errNoDaemon) {
		return found, err
	}
	options := daemon.StoreOptions(cfg)
	options.ReadOnly = true
	store, err := sqlstore.Open(ctx, options)
	if e := perigee.AsError(err); e != nil && e.Class == perigee.ClassNotFound {
		if _, missing := os.Stat(cfg.DataDir); errors.Is(missing, fs.ErrNotExist) && cfg.Store.URL.IsZero() {
			env.say("the data directory %s does not exist", cfg.DataDir)
		}
		env.say("%v", err)
		return found, nil
	}
	if err != nil {
		return found, err
	}
	defer store.Close()
	return read(store)
}
