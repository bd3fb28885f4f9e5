package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"perigee"
	"perigee/internal/daemon/remote"
	"perigee/internal/store/audit"
	"perigee/internal/store/config"
	"perigee/internal/store/datadir"
	"perigee/internal/store/sqlstore"
)

// StoreReport returns the stored data and its sizes. It reads them from the running daemon, or else
// from the disk.
func StoreReport(ctx context.Context, cfg *config.Config) (report perigee.StoreReport, err error) {
	if report, err = Ask[perigee.StoreReport](ctx, cfg, remote.StorePath); !errors.Is(err, ErrNotRunning) {
		return report, err
	}
	options := StoreOptions(cfg)
	options.ReadOnly = true
	store, err := sqlstore.Open(ctx, options)
	if err != nil {
		return report, err
	}
	defer func() { _ = store.Close() }()
	store.LimitResponses(int64(cfg.Store.Responses))
	return offlineKeeper(cfg, store).StoreReport(ctx)
}

// CountCalls adds all calls to the daily sums of the store, without a daemon. It fails if the
// database cannot be written.
func CountCalls(ctx context.Context, cfg *config.Config) error {
	options := StoreOptions(cfg)
	options.Additive = true
	store, err := sqlstore.Open(ctx, options)
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	return store.CountCalls(ctx)
}

// CompactStore returns the free space of the database to the system, through the running daemon or
// directly. Without a daemon it locks the data directory of an SQLite database, so that no daemon
// starts during it.
func CompactStore(ctx context.Context, cfg *config.Config) (done perigee.StoreCompacted, err error) {
	switch client, err := Reach(ctx, cfg); {
	case err == nil:
		return remote.Ask[perigee.StoreCompacted](ctx, client, http.MethodPost, remote.CompactPath, nil)
	case !errors.Is(err, ErrNotRunning):
		return done, err
	}
	// A missing database is not created.
	options := StoreOptions(cfg)
	options.ReadOnly = true
	look, err := sqlstore.Open(ctx, options)
	if err != nil {
		return done, err
	}
	_ = look.Close()
	if cfg.Store.URL.IsZero() {
		lock, err := datadir.Lock(ctx, cfg.DataDir)
		if err != nil {
			return done, err
		}
		defer func() { _ = lock.Close() }()
	}
	options.ReadOnly = false
	store, err := sqlstore.Open(ctx, options)
	if err != nil {
		return done, err
	}
	defer func() { _ = store.Close() }()
	done, err = offlineKeeper(cfg, store).CompactStore(ctx)
	_ = offlineLog(Options{}, store).Record(ctx, perigee.AuditEntry{Action: perigee.AuditStoreCompact, Object: done.Database,
		Detail: fmt.Sprintf("%d bytes freed", done.Freed), Result: audit.ResultOf(err)})
	return done, err
}
