package roster

import (
	"context"
	"errors"
	"time"

	"perigee"
	"perigee/internal/account/pool"
)

const (
	stopTime  = 10 * time.Second // for storing one state
	closeTime = 10 * time.Second // for storing the waiting ones when the roster is closed
)

// storeState stores a state that the provider has reported, unless the account was changed since:
// then the report is about an older sign-in. If the new one is in that state as well, its next call
// reports it again.
func (r *Roster) storeState(stop pool.Stop) {
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	kept, err := change(ctx, r.store, r.upstream, stop.Email, func(s *perigee.SignIn) bool {
		if s.Generation != stop.Generation {
			r.logger.Debug("outdated account state ignored", "upstream", r.upstream, "account", stop.Email, "state", stop.State)
			return false
		}
		differs := s.State != stop.State || s.Reason != stop.Reason
		s.State, s.Reason = stop.State, stop.Reason
		return differs
	})
	if err != nil && !errors.Is(err, errNoAccount) {
		r.logger.Warn("account state not stored", "upstream", r.upstream, "error", err)
	}
	if err == nil && kept.State == stop.State {
		r.applyStored(kept)
	}
}
