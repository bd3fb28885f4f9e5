package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"time"

	"perigee"
	"perigee/internal/audit"
	"perigee/internal/config"
	"perigee/internal/httpapi"
	"perigee/internal/imagestore"
	"perigee/internal/signature"
	"perigee/internal/sqlstore"
)

const (
	storePath   = "/v1/store"
	compactPath = "/v1/store/compact"
)

// A keeper is the store of a daemon, or of a data directory without one.
type keeper struct {
	cfg    func() *config.Config // in force
	store  *sqlstore.Store
	images *imagestore.Store
	online bool
}

var _ httpapi.StoreKeeper = keeper{}

// StoreReport adds what the database does not know of.
func (k keeper) StoreReport(ctx context.Context) (perigee.StoreReport, error) {
	report, err := k.store.Report(ctx)
	if err != nil {
		return report, err
	}
	keep := map[string]time.Duration{
		"calls": k.cfg().Retention.Calls, "responses": httpapi.ResponseLife, "signatures": signature.DefaultKeep,
	}
	for i := range report.Rows {
		if age, ok := keep[report.Rows[i].What]; ok {
			report.Rows[i].Keep = int64(age / time.Second)
		}
	}
	images, bytes := k.images.Size()
	maxImages, maxBytes, age := k.images.Limits()
	report.Rows = append(report.Rows, perigee.StoreRow{
		What: "images", Count: int64(images), Bytes: bytes, Counted: bytes, MaxCount: int64(maxImages), MaxBytes: maxBytes, Keep: int64(age / time.Second),
	})
	return report, nil
}

// CompactStore gives the free space of the database back.
func (k keeper) CompactStore(ctx context.Context) (perigee.StoreCompacted, error) {
	return k.store.Compact(ctx, k.online)
}

// StoreReport says what is kept and what it takes. It asks the running daemon, or else looks itself.
func StoreReport(ctx context.Context, cfg *config.Config) (report perigee.StoreReport, err error) {
	if err = Ask(ctx, cfg, storePath, &report); !errors.Is(err, ErrNotRunning) {
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
	return offline(cfg, store).StoreReport(ctx)
}

// CompactStore has the running daemon give the free space of the database back, or does it itself, and keeps a daemon from
// starting meanwhile.
func CompactStore(ctx context.Context, cfg *config.Config) (done perigee.StoreCompacted, err error) {
	switch err := reach(ctx, cfg); {
	case err == nil:
		err = newRemote(cfg).ask(ctx, http.MethodPost, compactPath, nil, &done)
		return done, err
	case !errors.Is(err, ErrNotRunning):
		return done, err
	}
	// What is not there is not made.
	options := StoreOptions(cfg)
	options.ReadOnly = true
	look, err := sqlstore.Open(ctx, options)
	if err != nil {
		return done, err
	}
	_ = look.Close()
	if cfg.Store.URL.IsZero() {
		lock, err := lockDir(ctx, cfg.DataDir)
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
	done, err = offline(cfg, store).CompactStore(ctx)
	_ = offlineLog(Options{}, store).Record(ctx, perigee.AuditEntry{Action: perigee.AuditStoreCompact, Object: done.Database,
		Detail: fmt.Sprintf("%d bytes freed", done.Freed), Result: audit.ResultOf(err)})
	return done, err
}

func offline(cfg *config.Config, store *sqlstore.Store) keeper {
	return keeper{cfg: func() *config.Config { return cfg }, store: store, images: imagestore.New(imagestore.Options{Dir: imageDir(cfg)})}
}

// imageDir is where pictures that models draw are kept.
func imageDir(cfg *config.Config) string { return filepath.Join(cfg.DataDir, "images") }
