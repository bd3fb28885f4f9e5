package daemon

import (
	"time"

	"perigee"
)

const (
	upkeepEvery = time.Minute           // when there was nothing left to do
	upkeepPause = 25 * time.Millisecond // between two pieces of work, in which calls are saved
)

// warmUp has the store open its connections, which would delay the start.
func (d *Daemon) warmUp() {
	if err := d.store.WarmUp(d.base); err != nil && d.base.Err() == nil {
		d.opts.Logger.Warn("not all connections to the database could be opened", "error", err)
	}
}

// upkeep has the store sum up recorded calls, and remove those that are older than retention.calls,
// until the daemon stops.
func (d *Daemon) upkeep() {
	ctx, removed, failing := d.base, 0, false
	for ctx.Err() == nil {
		var before time.Time
		if keep := d.config().Retention.Calls; keep > 0 {
			before = d.opts.Now().Add(-keep)
		}
		n, more, err := d.store.Upkeep(ctx, before)
		removed += n
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !failing:
			d.opts.Logger.Warn("recorded calls cannot be summed up or removed for now", "error", err)
		case err == nil && !more && removed > 0:
			d.opts.Logger.Info("old calls removed", "calls", removed, "before", before)
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
