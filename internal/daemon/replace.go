package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"perigee"
	"perigee/internal/store/config"
	"perigee/internal/store/sqlstore"
	"perigee/internal/upstream/headless"
)

// CanReplace returns why a daemon with a configuration could not replace the running one, as far as
// that can be determined before the running one is stopped: its PostgreSQL database cannot be used,
// its SQLite file needs a newer perigee, or another program has the address of the intercepting
// proxy. It changes nothing. The address for clients is not checked here. Without a daemon there is
// no error, and the addresses of one that does not answer are unknown.
func CanReplace(ctx context.Context, cfg *config.Config, simulate bool) error {
	status, err := Status(ctx, cfg)
	if errors.Is(err, ErrNotRunning) {
		return nil
	}
	if err := checkStore(ctx, StoreOptions(cfg)); err != nil {
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

// fileTime is how long an SQLite file is waited for: a running daemon that hangs may have locked it.
const fileTime = 2 * time.Second

// checkStore returns why a database cannot be used. One without tables, or of an older version, can
// be: the daemon creates and migrates them. The only error about the SQLite file of the data
// directory is that its schema needs a newer perigee. Any other may end with the running daemon, and
// so may a lock: after fileTime there is no error.
func checkStore(ctx context.Context, options sqlstore.Options) error {
	options.ReadOnly = true
	if !options.URL.IsZero() {
		err := tryOpen(ctx, options)
		if e := perigee.AsError(err); e != nil && e.Class == perigee.ClassNotFound || errors.Is(err, sqlstore.ErrOlder) {
			return nil
		}
		return err
	}
	opened := make(chan error, 1)
	go func() { opened <- tryOpen(ctx, options) }() // SQLite waits for a lock also after ctx is done
	limit := time.NewTimer(fileTime)
	defer limit.Stop()
	select {
	case err := <-opened:
		if errors.Is(err, sqlstore.ErrNewer) {
			return err
		}
	case <-limit.C:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// tryOpen opens a database and closes it.
func tryOpen(ctx context.Context, options sqlstore.Options) error {
	store, err := sqlstore.Open(ctx, options)
	if err != nil {
		return err
	}
	return store.Close()
}
