package daemon

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"strings"
	"time"

	"perigee"
	"perigee/internal/httpapi"
	"perigee/internal/sqlstore"
)

// Several daemons may share one PostgreSQL database: then each is a replica. What follows is how a replica learns what
// the others have done; who may refresh an account, and whose calls are open, is between the store and its users.

// sharedPoll is how often a replica looks whether another has changed something about accounts. Looking is one row; a
// notification would need a connection that stays, which not every pooler gives.
const sharedPoll = 2 * time.Second

// replicaName is what a daemon is called among those that share its database. It is another with each start, so that calls
// which an earlier one left open are not taken for its own.
func replicaName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "perigee"
	}
	return fmt.Sprintf("%s-%d-%s", host, os.Getpid(), strings.ToLower(rand.Text()[:10]))
}

// sharedRequests is where the requests of keys are counted over all replicas; nil when there are none.
func sharedRequests(store *sqlstore.Store) httpapi.RequestCounter {
	if !store.Shared() {
		return nil
	}
	return store
}

// followReplicas takes over what other replicas change about accounts, until the daemon stops.
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
				if err = d.takeOver(d.base); err == nil {
					seen = changes
				}
			}
			switch {
			case d.base.Err() != nil:
				return
			case err != nil && !failing:
				d.opts.Logger.Warn("what other replicas change cannot be seen for now", "error", err)
			case err == nil && failing:
				d.opts.Logger.Info("what other replicas change is seen again")
			}
			failing = err != nil
		}
	})
}

func (d *Daemon) takeOver(ctx context.Context) error {
	for _, r := range (control{d.house}).rosters() {
		if err := r.follow(ctx); err != nil {
			return err
		}
	}
	return nil
}

// follow makes the pool know what others have changed in the store. Unlike load it keeps the access tokens of accounts whose
// refresh token another replica has rotated: replacing them, too, would have the replicas refresh in turns for ever.
func (r *roster) follow(ctx context.Context) error {
	before, nobody := r.preferred(), len(r.everybody()) == 0
	if err := r.loadWith(ctx, (*source).follow); err != nil {
		return err
	}
	if after := r.preferred(); after != "" && after != before && !nobody {
		return r.pool.Use(after) // somebody has said so elsewhere
	}
	return nil
}

// preferred is the address of the account that comes before all others; empty: there is none.
func (r *roster) preferred() string {
	for _, s := range r.everybody() {
		if signIn := s.SignIn(); signIn.Preferred {
			return signIn.Email
		}
	}
	return ""
}

// follow takes over what has changed about the account, its refresh token included.
func (s *source) follow(signIn perigee.SignIn) *source {
	s.tokens.Adopt(signIn)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stored = signIn
	return s
}

// sealAdvice is what the owner should know about the key of accounts that are shared.
func (d *Daemon) sealAdvice(r *roster) (lines []string) {
	if !d.store.Shared() {
		return nil
	}
	closed, reason := 0, ""
	for _, s := range r.everybody() {
		if signIn := s.SignIn(); signIn.Refresh.IsZero() {
			closed, reason = closed+1, signIn.Reason
		}
	}
	if closed > 0 {
		lines = append(lines, fmt.Sprintf("%d accounts of upstream %s cannot be used by this replica (%s); give every replica the same store.seal_key", closed, r.upstream, reason))
	}
	if d.opts.Loaded.Config.Store.SealKey.IsZero() {
		lines = append(lines, "store.seal_key is not set: other replicas cannot use accounts that are added through this one")
	}
	return lines
}
