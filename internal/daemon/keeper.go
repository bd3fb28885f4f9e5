package daemon

import (
	"context"
	"path/filepath"
	"time"

	"perigee"
	"perigee/internal/observe/trace"
	"perigee/internal/route/thoughtsig"
	"perigee/internal/server"
	"perigee/internal/server/admin"
	"perigee/internal/server/imagestore"
	"perigee/internal/store/config"
	"perigee/internal/store/datadir"
	"perigee/internal/store/sqlstore"
)

// A keeper is the store of a daemon, or of a data directory without one.
type keeper struct {
	Config func() *config.Config // in force
	Store  *sqlstore.Store
	Images *imagestore.Store
}

var _ admin.StoreKeeper = keeper{}

// offlineKeeper returns the Keeper of a data directory that no daemon uses.
func offlineKeeper(cfg *config.Config, store *sqlstore.Store) keeper {
	return keeper{Config: func() *config.Config { return cfg }, Store: store, Images: imagestore.New(imagestore.Options{Dir: imageDir(cfg)})}
}

// imageDir returns the directory of generated images.
func imageDir(cfg *config.Config) string { return filepath.Join(cfg.DataDir, datadir.ImagesName) }

// traceDir returns the directory of the traces of calls.
func traceDir(cfg *config.Config) string { return filepath.Join(cfg.DataDir, datadir.TracesName) }

// StoreReport adds the files that are not in the database.
func (k keeper) StoreReport(ctx context.Context) (perigee.StoreReport, error) {
	report, err := k.Store.Report(ctx)
	if err != nil {
		return report, err
	}
	keep := map[string]time.Duration{
		"calls": k.Config().Retention.Calls, "responses": server.ResponseLife, "signatures": thoughtsig.DefaultKeep,
	}
	for i := range report.Rows {
		if age, ok := keep[report.Rows[i].What]; ok {
			report.Rows[i].Keep = int64(age / time.Second)
		}
	}
	images, bytes := k.Images.Size()
	maxImages, maxBytes, age := k.Images.Limits()
	report.Rows = append(report.Rows, perigee.StoreRow{
		What: "images", Count: int64(images), Bytes: bytes, Counted: bytes,
		MaxCount: int64(maxImages), MaxBytes: maxBytes, Keep: int64(age / time.Second),
	})
	calls, bytes := trace.Size(traceDir(k.Config()))
	report.Rows = append(report.Rows, perigee.StoreRow{
		What: "traces", Count: calls, Bytes: bytes, Counted: bytes, MaxCount: trace.MaxCalls, MaxBytes: int64(k.Config().Traces.Keep),
	})
	return report, nil
}

// CompactStore gives the free space of the database back.
func (k keeper) CompactStore(ctx context.Context) (perigee.StoreCompacted, error) {
	return k.Store.Compact(ctx)
}
