package daemon

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"strings"
	"time"

	"perigee/internal/account/roster"
	"perigee/internal/server/clientkey"
	"perigee/internal/store/sqlstore"
)

// Several daemons may share one PostgreSQL database: then each is a replica. The following
// functions read the changes of other replicas. The store has the lease on refreshing an account,
// and the owner of an open call.

// sharedPoll is how often a replica looks whether another has changed something about accounts.
// Looking is one row; a notification would need a connection that stays, which not every pooler
// gives.
const sharedPoll = 2 * time.Second

// replicaName returns the name of a daemon among those that share its database. It is another with
// each start, so that calls which an earlier one left open are not taken for its own.
func replicaName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "perigee"
	}
	return fmt.Sprintf("%s-%d-%s", host, os.Getpid(), strings.ToLower(rand.Text()[:10]))
}

// sharedRequests returns where the requests of keys are counted over all replicas; nil when there
// are none.
func sharedRequests(store *sqlstore.Store) clientkey.RequestCounter {
	if !store.Shared() {
		return nil
	}
	return store
}

// followReplicas takes over changes of accounts by other replicas, until the daemon stops.
func (d *Daemon) followReplicas() {
	if !d.store.Shared() {
		return
	}
	d.background.Go(func() {
		tick := time.NewTicker(sharedPoll)
		defer tick.Stop()
		seen, failing := int64(-1), false
		for {
			select {
			case <-tick.C:
			case <-d.base.Done():
				return
			}
			changes, err := d.store.Changes(d.base)
			if err == nil && changes != seen {
				if err = d.followAccounts(d.base); err == nil {
					seen = changes
				}
			}
			switch {
			case d.base.Err() != nil:
				return
			case err != nil && !failing:
				d.opts.Logger.Warn("changes by other replicas cannot be read; retrying", "error", err)
			case err == nil && failing:
				d.opts.Logger.Info("changes by other replicas are read again")
			}
			failing = err != nil
		}
	})
}

// followAccounts reads the changes of accounts by other replicas.
func (d *Daemon) followAccounts(ctx context.Context) error {
	for _, r := range d.gateway.Rosters() {
		if err := r.Follow(ctx); err != nil {
			return err
		}
	}
	return nil
}

// sealAdvice returns advice for the owner about the key of accounts that are shared.
func (d *Daemon) sealAdvice(r *roster.Roster) (lines []string) {
	if !d.store.Shared() {
		return nil
	}
	closed, reason := 0, ""
	for _, s := range r.SignIns() {
		if s.Refresh.IsZero() {
			closed, reason = closed+1, s.Reason
		}
	}
	if closed > 0 {
		lines = append(lines, fmt.Sprintf(
			"%d accounts of upstream %s cannot be used by this replica (%s); give every replica the same store.seal_key", closed, r.Upstream(), reason))
	}
	if d.opts.Loaded.Config.Store.SealKey.IsZero() {
		lines = append(lines, "store.seal_key is not set: other replicas cannot use accounts that are added through this one")
	}
	return lines
}
