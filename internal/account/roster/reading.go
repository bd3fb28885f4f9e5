package roster

import (
	"context"
	"math/rand/v2"
	"time"

	"perigee"
)

// GET /v1/quota reads the quota of each account at most once in these times, however often clients
// ask.
const (
	quotaFresh        = 15 * time.Second // how long a reading is served again
	quotaBackoff      = 30 * time.Second // how long a failure is; it doubles with each further one
	quotaBackoffMax   = 5 * time.Minute
	quotaRetryMax     = time.Hour       // limit for the delay that the provider requests
	quotaBackoffOwner = 2 * time.Second // for the owner's commands: the cause may be repaired
)

// A reading is the result of the last quota request for an account. The lock of the roster guards
// it.
type reading struct {
	rows     []perigee.QuotaRow
	err      error
	at       time.Time
	failures int           // in a row
	backoff  time.Duration // after the last of them
	asking   *quotaQuery   // nil if no request is under way
}

// A quotaQuery is a question that is under way, for any number of callers.
type quotaQuery struct {
	done chan struct{} // closed: rows and err are set
	rows []perigee.QuotaRow
	err  error
}

// quota returns the remaining quota of an account from a recent reading, or from a new one if fresh
// is true. A reading made during a call does not count: it may be from before the call.
//
// Failures are cached like readings, for longer with each in a row, and an account has at most one
// request under way. The request continues when its caller leaves: otherwise callers that do not
// wait would each start another one.
func (r *Roster) quota(ctx context.Context, s *Source, fresh bool) ([]perigee.QuotaRow, error) {
	query, rows, err := r.query(s, fresh)
	if query == nil {
		return rows, err
	}
	select {
	case <-query.done:
		return query.rows, query.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// query returns the request for an account that is under way, and starts one if necessary. It
// returns nil and the known rows if none is needed.
func (r *Roster) query(s *Source, fresh bool) (*quotaQuery, []perigee.QuotaRow, error) {
	email, now := s.SignIn().Email, r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.readings[email]
	if last == nil {
		last = &reading{}
		r.readings[email] = last
	}
	if last.asking != nil {
		return last.asking, nil, nil
	}
	if left := last.left(now, fresh); left > 0 {
		return nil, last.rows, withRetry(last.err, left)
	}
	query := &quotaQuery{done: make(chan struct{})}
	if err := r.start(func(ctx context.Context) {
		query.rows, query.err = r.readQuota(ctx, s)
		r.mu.Lock()
		defer r.mu.Unlock()
		last.set(query, now)
		close(query.done)
	}); err != nil {
		return nil, nil, err
	}
	last.asking = query
	return query, nil, nil
}

// left returns how long the last answer stays valid; 0 if the account has to be read again.
func (l *reading) left(now time.Time, fresh bool) time.Duration {
	limit := quotaFresh
	switch {
	case l.at.IsZero() || now.Before(l.at):
		return 0
	case l.err != nil && fresh:
		limit = quotaBackoffOwner
	case l.err != nil:
		limit = l.backoff
	case fresh:
		return 0
	}
	return max(0, limit-now.Sub(l.at))
}

// set takes the answer to a question of a time.
func (l *reading) set(query *quotaQuery, asked time.Time) {
	l.asking, l.rows, l.err, l.at = nil, query.rows, query.err, asked
	if l.err == nil {
		l.failures = 0
		return
	}
	l.backoff = min(quotaBackoff<<min(l.failures, 8), quotaBackoffMax)
	l.backoff += rand.N(l.backoff / 5)
	l.backoff = max(l.backoff, min(perigee.AsError(l.err).Retry, quotaRetryMax))
	l.failures++
}

// withRetry returns a cached error with the time for which it stays valid.
func withRetry(err error, left time.Duration) error {
	if err == nil {
		return nil
	}
	e := *perigee.AsError(err)
	e.Cause, e.Retry = err, left
	return &e
}
