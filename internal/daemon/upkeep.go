package daemon

import (
	"context"
	"log/slog"
	"time"

	"perigee"
	"perigee/internal/store/sqlstore"
)

const (
	upkeepEvery = time.Minute            // when there was nothing left to do
	upkeepPause = 100 * time.Millisecond // between two pieces of work, in which calls are saved
)

// An upkeepTask has the store sum up recorded calls and remove those that are older than Keep.
type upkeepTask struct {
	Store  *sqlstore.Store
	Keep   func() time.Duration // 0 for ever
	Now    func() time.Time
	Logger *slog.Logger
}

// Run works until ctx ends.
func (u upkeepTask) Run(ctx context.Context) {
	removed, failing := 0, false
	for ctx.Err() == nil {
		var before time.Time
		if keep := u.Keep(); keep > 0 {
			before = u.Now().Add(-keep)
		}
		n, more, err := u.Store.Upkeep(ctx, before)
		removed += n
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !failing:
			u.Logger.Warn("recorded calls cannot be summed up or removed for now", "error", err)
		case err == nil && !more && removed > 0:
			u.Logger.Info("old calls removed", "calls", removed, "before", before)
			removed = 0
		}
		failing = err != nil
		pause := upkeepEvery
		if more {
			pause = upkeepPause
		}
		perigee.Pause(ctx, pause)
	}
}
