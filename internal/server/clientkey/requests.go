package clientkey

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"perigee"
)

// A RequestCounter counts the requests of keys for several servers together. A key has a bucket
// that holds perMinute requests and is filled at that rate.
type RequestCounter interface {
	// TakeRequests takes n requests, at most perMinute, out of the bucket of a key. If there are
	// not as many it takes none, and returns after how long there will be.
	TakeRequests(ctx context.Context, key string, n, perMinute int) (wait time.Duration, err error)
}

// TakeRequest takes a request out of the key's bucket: the one that all servers share, if there is
// one.
func (k *Guarded) TakeRequest(ctx context.Context, shared *SharedLimit, now time.Time) error {
	if k.RPM == 0 {
		return nil
	}
	return k.tooManyRequests(k.requestsAfter(ctx, shared, 1, now))
}

// TakeMore takes the remaining requests of a call that makes this many requests to the provider,
// after TakeRequest has taken one.
func (k *Guarded) TakeMore(ctx context.Context, shared *SharedLimit, requests int, now time.Time) error {
	if k.RPM == 0 || requests < 2 {
		return nil
	}
	if requests > k.RPM { // it would never be allowed, however long the client waits
		return perigee.Errorf(perigee.ClassInvalid, "the key %s may make %d requests a minute, and this call makes %d", k.Name,
			k.RPM, requests).
			WithHint("ask for fewer at once, or raise its rpm")
	}
	wait := k.requestsAfter(ctx, shared, requests-1, now)
	if wait > 0 {
		wait += perRequest(1, k.RPM) // the next try takes one again before it gets here
	}
	return k.tooManyRequests(wait)
}

// tooManyRequests returns the error for a key that has to wait before its next request, or nil if
// wait is 0.
func (k *Guarded) tooManyRequests(wait time.Duration) error {
	if wait == 0 {
		return nil
	}
	e := perigee.Errorf(perigee.ClassRateLimited, "the key %s may make %d requests a minute", k.Name, k.RPM).
		WithHint("wait %s, or raise its rpm", (wait + time.Second - 1).Truncate(time.Second))
	e.Retry = wait
	return e
}

// requestsAfter takes n requests from the limit, or returns how long to wait until they are
// available.
func (k *Guarded) requestsAfter(ctx context.Context, shared *SharedLimit, n int, now time.Time) (wait time.Duration) {
	if shared.Counter == nil {
		return k.use.take(n, k.RPM, now)
	}
	if wait := k.use.stillRefused(n, k.RPM, now); wait > 0 {
		return wait
	}
	wait, counted := shared.take(ctx, k.Name, n, k.RPM, now)
	if !counted {
		return k.use.take(n, k.RPM, now)
	}
	k.use.note(wait, n, k.RPM, now)
	return wait
}

// refill fills the bucket of a key if its limit was changed.
func (u *keyUse) refill(before, now int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if before != now {
		u.allowed, u.refilled, u.refused = float64(now), time.Time{}, time.Time{}
	}
}

// take takes n requests from the bucket, or returns how long to wait until they are available.
func (u *keyUse) take(n, rpm int, now time.Time) (wait time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.fill(rpm, now)
	if missing := float64(n) - u.allowed; missing > rounding {
		return max(1, time.Duration(missing*float64(time.Minute)/float64(rpm)))
	}
	u.allowed = max(0, u.allowed-float64(n))
	return 0
}

// rounding is how little of a request may be missing, so that the time in Retry-After is enough.
const rounding = 1e-6

// fill brings the bucket up to the present. The lock is held.
func (u *keyUse) fill(rpm int, now time.Time) {
	if !u.refilled.IsZero() {
		u.allowed = min(float64(rpm), u.allowed+float64(rpm)*max(0, now.Sub(u.refilled).Minutes()))
	}
	u.refilled = now
}

// note records the answer of the shared bucket. Admitted requests are also taken from this server's
// own bucket, so that it is not full if it has to be used. While the shared bucket is empty, it is
// not asked again until it has refilled.
func (u *keyUse) note(wait time.Duration, n, rpm int, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if wait > 0 {
		u.refused = now.Add(wait - perRequest(n-1, rpm))
		return
	}
	u.fill(rpm, now)
	u.allowed = max(0, u.allowed-float64(n))
}

// stillRefused returns how long n requests have to wait according to the last answer of the
// counter, or 0 if the counter has to be asked.
func (u *keyUse) stillRefused(n, rpm int, now time.Time) time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	left := u.refused.Sub(now)
	if left <= 0 || left > time.Minute { // a clock that was set back
		return 0
	}
	return left + perRequest(n-1, rpm)
}

// perRequest returns the time in which n requests are added to the bucket.
func perRequest(n, rpm int) time.Duration { return time.Duration(n) * time.Minute / time.Duration(rpm) }

// A SharedLimit asks a RequestCounter for as long as that answers. Without one, each server counts
// for itself.
type SharedLimit struct {
	Counter RequestCounter
	Logger  *slog.Logger

	mu    sync.Mutex
	away  bool
	again time.Time // when it is asked again
}

const (
	countPatience = time.Second     // every call of a key with an rpm waits for this answer
	countAgain    = 5 * time.Second // how long it is left alone after it gave none
)

// take asks the counter for n requests of a key. While it does not answer, each server counts for
// itself, which at worst allows too many requests: calls do not depend on the database otherwise
// either.
func (s *SharedLimit) take(ctx context.Context, key string, n, rpm int, now time.Time) (wait time.Duration, counted bool) {
	if !s.shouldAsk(now) {
		return 0, false
	}
	// A disconnecting client must not cancel the query: that would close the connection to the
	// database.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), countPatience)
	defer cancel()
	wait, err := s.Counter.TakeRequests(ctx, key, n, rpm)
	s.noteResult(err, now)
	return wait, err == nil
}

// shouldAsk reports whether to ask the counter. While the counter does not answer, one call asks it
// every five seconds.
func (s *SharedLimit) shouldAsk(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away && now.Before(s.again) && s.again.Sub(now) <= countAgain {
		return false
	}
	s.again = now.Add(countAgain)
	return true
}

// noteResult records whether the counter has answered, and logs a change.
func (s *SharedLimit) noteResult(err error, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil && !s.away:
		s.Logger.Warn("the requests of keys cannot be counted over all replicas for now; this one counts its own", "error", err)
	case err == nil && s.away:
		s.Logger.Info("the requests of keys are counted over all replicas again")
	}
	s.away, s.again = err != nil, now.Add(countAgain)
}
