package httpapi

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"perigee"
)

// A RequestCounter counts the requests of keys for several servers together. A key has a bucket that holds perMinute requests
// and is filled at that rate.
type RequestCounter interface {
	// TakeRequests takes n requests, at most perMinute, out of the bucket of a key. If there are not as many it takes none, and
	// returns after how long there will be.
	TakeRequests(ctx context.Context, key string, n, perMinute int) (wait time.Duration, err error)
}

// takeRequests takes n requests of a call out of the key's bucket: the one that all servers share, if there is one.
func (c *call) takeRequests(k *guardedKey, n int) error {
	if k.RPM == 0 {
		return nil
	}
	return k.tooManyRequests(c.requestsAfter(k, n))
}

// takeMore takes the rest of the requests of a call that makes so many of them of the provider. One was taken by admit.
func (c *call) takeMore(requests int) error {
	k := c.key
	if k == nil || k.RPM == 0 || requests < 2 {
		return nil
	}
	if requests > k.RPM { // no time to wait would be true
		return perigee.Errorf(perigee.ClassInvalid, "the key %s may make %d requests a minute, and this call makes %d", k.Name, k.RPM, requests).
			WithNext("ask for fewer at once, or raise its rpm")
	}
	wait := c.requestsAfter(k, requests-1)
	if wait > 0 {
		wait += perRequest(1, k.RPM) // the next try takes one again before it gets here
	}
	return k.tooManyRequests(wait)
}

// tooManyRequests is the error for a key that has to wait before its next request; nil where it has not.
func (k *guardedKey) tooManyRequests(wait time.Duration) error {
	if wait == 0 {
		return nil
	}
	e := perigee.Errorf(perigee.ClassRateLimited, "the key %s may make %d requests a minute", k.Name, k.RPM).
		WithNext("wait %s, or raise its rpm", (wait + time.Second - 1).Truncate(time.Second))
	e.Retry = wait
	return e
}

// requestsAfter takes n requests, or says after how long there will be as many.
func (c *call) requestsAfter(k *guardedKey, n int) (wait time.Duration) {
	now := c.opts.Now()
	if c.opts.Requests == nil {
		return k.use.take(n, k.RPM, now)
	}
	if wait := k.use.stillRefused(n, k.RPM, now); wait > 0 {
		return wait
	}
	wait, counted := c.together.take(c.r.Context(), k.Name, n, k.RPM, now)
	if !counted {
		return k.use.take(n, k.RPM, now)
	}
	k.use.note(wait, n, k.RPM, now)
	return wait
}

// refill gives a key whose limit was changed a full bucket.
func (u *keyUse) refill(before, now int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if before != now {
		u.allowed, u.refilled, u.refused = float64(now), time.Time{}, time.Time{}
	}
}

// take takes n requests out of the bucket, or says after how long there will be as many.
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

// rounding is how little of a request may be missing from it: who waits as long as was said must not find that it was not enough.
const rounding = 1e-6

// fill brings the bucket up to the present. The lock is held.
func (u *keyUse) fill(rpm int, now time.Time) {
	if !u.refilled.IsZero() {
		u.allowed = min(float64(rpm), u.allowed+float64(rpm)*max(0, now.Sub(u.refilled).Minutes()))
	}
	u.refilled = now
}

// note keeps what was said about the bucket that is shared. What was let through is taken out of this server's own bucket, too:
// should it have to do with that one, it does not begin with a full one. And when there was nothing left there will be nothing for
// anybody until the bucket has filled, so nobody need be asked before then, however often a client tries.
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

// stillRefused is how long n requests have to wait as far as was said already; 0: who counts has to be asked.
func (u *keyUse) stillRefused(n, rpm int, now time.Time) time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	left := u.refused.Sub(now)
	if left <= 0 || left > time.Minute { // a clock that was set back
		return 0
	}
	return left + perRequest(n-1, rpm)
}

// perRequest is the time in which n requests come into the bucket.
func perRequest(n, rpm int) time.Duration { return time.Duration(n) * time.Minute / time.Duration(rpm) }

// A sharedCount asks a RequestCounter for as long as that answers.
type sharedCount struct {
	counter RequestCounter
	logger  *slog.Logger

	mu    sync.Mutex
	away  bool
	again time.Time // when it is asked again
}

const (
	countPatience = time.Second     // every call of a key with an rpm waits for this answer
	countAgain    = 5 * time.Second // how long it is left alone after it gave none
)

// take asks for n requests of a key. It is not counted when nobody can be asked. Then each server counts for itself, which lets
// through too much at worst: that a database is away must not refuse people their calls, which go on without it in every
// other way.
func (s *sharedCount) take(ctx context.Context, key string, n, rpm int, now time.Time) (wait time.Duration, counted bool) {
	if !s.worthAsking(now) {
		return 0, false
	}
	// A client that leaves is no reason to give up a connection to the database in the middle of a question.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), countPatience)
	defer cancel()
	wait, err := s.counter.TakeRequests(ctx, key, n, rpm)
	s.heard(err, now)
	return wait, err == nil
}

// worthAsking says whether there will be an answer. While there was none, one call at a time finds out.
func (s *sharedCount) worthAsking(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away && now.Before(s.again) && s.again.Sub(now) <= countAgain {
		return false
	}
	s.again = now.Add(countAgain)
	return true
}

// heard notes whether there was an answer, and says so when that has changed.
func (s *sharedCount) heard(err error, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil && !s.away:
		s.logger.Warn("the requests of keys cannot be counted over all replicas for now; this one counts its own", "error", err)
	case err == nil && s.away:
		s.logger.Info("the requests of keys are counted over all replicas again")
	}
	s.away, s.again = err != nil, now.Add(countAgain)
}
