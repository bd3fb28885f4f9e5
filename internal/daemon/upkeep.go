package daemon

import "time"

const (
	upkeepEvery = time.Minute            // when there was nothing left to do
	upkeepPause = 100 * time.Millisecond // between two pieces of work: calls are saved meanwhile
)

// upkeep has the store sum up recorded calls and remove those that are older than retention.calls, until the daemon stops.
func (d *Daemon) upkeep() {
	d.background.Go(func() {
		removed, failing := 0, false
		for d.base.Err() == nil {
			var before time.Time
			if keep := time.Duration(d.keepCalls.Load()); keep > 0 {
				before = d.opts.Now().Add(-keep)
			}
			n, more, err := d.store.Upkeep(d.base, before)
			removed += n
			switch {
			case d.base.Err() != nil:
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
			select {
			case <-time.After(pause):
			case <-d.base.Done():
			}
		}
	})
}
