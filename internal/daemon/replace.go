package daemon

import (
	"context"
	"errors"
	"fmt"

	"perigee"
	"perigee/internal/store/config"
	"perigee/internal/store/sqlstore"
	"perigee/internal/upstream/headless"
)

// CanReplace returns why a daemon with a configuration could not replace the running one, as far as
// that can be determined before the running one is stopped: its PostgreSQL database cannot be used,
// or another program has the address of the intercepting proxy. It changes nothing. The address for
// clients is not checked here. Without a daemon there is no error, and the addresses of one that
// does not answer are unknown.
func CanReplace(ctx context.Context, cfg *config.Config, simulate bool) error {
	status, err := Status(ctx, cfg)
	if errors.Is(err, ErrNotRunning) {
		return nil
	}
	if err := checkShared(ctx, cfg); err != nil {
		return err
	}
	if err != nil || simulate {
		return ctx.Err()
	}
	for _, u := range cfg.Upstreams {
		if u.Kind != config.KindLangserver || u.Attach {
			continue
		}
		if err := headless.CheckInterception(ctx, cfg.Interception, u.Intercept, status.Holds); err != nil {
			return fmt.Errorf("upstream %s: %w", u.Name, err)
		}
	}
	return nil
}

// checkShared returns why a PostgreSQL database cannot be used. One without tables, or of an older
// version, can be: the daemon creates and migrates them. The SQLite file of the data directory is
// not opened, since a running daemon that hangs may have locked it.
func checkShared(ctx context.Context, cfg *config.Config) error {
	options := StoreOptions(cfg)
	if options.URL.IsZero() {
		return nil
	}
	options.ReadOnly = true
	store, err := sqlstore.Open(ctx, options)
	if err == nil {
		return store.Close()
	}
	if e := perigee.AsError(err); e.Class == perigee.ClassNotFound || errors.Is(err, sqlstore.ErrOlder) {
		return nil
	}
	return err
}
