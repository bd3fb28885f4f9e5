package daemon

import (
	"context"
	"errors"
	"sync"
	"time"

	"perigee"
	"perigee/internal/account"
)

const (
	stopTime  = 10 * time.Second // for storing one
	closeTime = 10 * time.Second // for storing those that wait when the roster is closed
)

// stops are states of accounts on their way to the store: one after the other, in the order in which they came, and outside the
// calls that met them. A goroutine runs only while there is something to store.
type stops struct {
	keep func(ctx context.Context, stop account.Stop)

	mu      sync.Mutex
	waiting []account.Stop
	busy    bool // what waits is being stored
	closed  bool
	running sync.WaitGroup
}

// add queues a state. After close, which calls may outlive, it is stored before add returns.
func (q *stops) add(stop account.Stop) {
	q.mu.Lock()
	q.waiting = append(q.waiting, stop)
	ours := q.closed && !q.busy
	if !q.busy && !ours {
		q.running.Go(q.run)
	}
	q.busy = true
	q.mu.Unlock()
	if ours {
		q.run()
	}
}

func (q *stops) run() {
	for {
		q.mu.Lock()
		if len(q.waiting) == 0 {
			q.busy = false
			q.mu.Unlock()
			return
		}
		next := q.waiting[0]
		q.waiting = q.waiting[1:]
		q.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), stopTime)
		q.keep(ctx, next)
		cancel()
	}
}

// close waits until what was added is stored, or its time is up.
func (q *stops) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	stored := make(chan struct{})
	go func() { q.running.Wait(); close(stored) }()
	select {
	case <-stored:
	case <-time.After(closeTime):
	}
}

// keepState stores what the provider said about an account, unless the account was changed since: then the provider has not
// spoken about what it is now. If it is as before, the next call finds that out again.
func (r *roster) keepState(ctx context.Context, stop account.Stop) {
	kept, err := change(ctx, r.store, r.upstream, stop.Email, func(s *perigee.SignIn) bool {
		if s.Generation != stop.Generation {
			r.logger.Debug("old news about an account", "upstream", r.upstream, "account", stop.Email, "state", stop.State)
			return false
		}
		differs := s.State != stop.State || s.Reason != stop.Reason
		s.State, s.Reason = stop.State, stop.Reason
		return differs
	})
	if err != nil && !errors.Is(err, errNoAccount) {
		r.logger.Warn("the state of an account cannot be kept", "upstream", r.upstream, "error", err)
	}
	if err == nil && kept.State == stop.State {
		r.tell(kept)
	}
}
