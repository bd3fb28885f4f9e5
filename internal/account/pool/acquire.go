package pool

import (
	"context"
	"errors"
	"slices"
	"time"

	"perigee"
	"perigee/internal/adapt/providererr"
)

// An acquisition belongs to the goroutine of its call. While that waits, it is changed under the
// pool's lock.
type acquisition struct {
	pool   *Pool
	req    Request
	models group
	groups []*quotaGroup // that have the models, in the order of Options.Pools

	// Results of the call so far.
	last    *lease        // that has ended; nil if there is none yet
	brief   bool          // the last account will be back in a moment
	waited  time.Duration // over all leases
	lost    map[providererr.Kind][]*member
	failed  *member       // the last account with a provider error; nil if there is none yet
	again   bool          // that error may be over, so that the same account may be tried again
	refused tokenFailures // in the middle of a lease

	// Results of one Next so far.
	began          instant
	deadline       instant       // until when it may wait
	quotaRequested bool          // it has had the quotas looked at
	overflow       bool          // the session's account is only busy, so the session stays bound to it
	tokens         tokenFailures // including the failures of refused
	over           bool          // the error of tokens is the answer

	served chan served // receives the lease or error of a waiting call; has room for one
}

// tokenFailures are accounts for which renewing the access token failed.
type tokenFailures struct {
	members []*member
	tried   int   // how many of them were tried
	err     error // of the last one
}

// add records a failure, and reports whether the limit of failures is reached.
func (f *tokenFailures) add(m *member, err error) (enough bool) {
	f.members, f.err = append(f.members, m), err
	f.tried++
	return f.tried >= maxTokenFailures
}

type served struct {
	lease *lease
	err   error
}

// Acquire begins to lease accounts to a call. It costs nothing, and needs no end.
func (p *Pool) Acquire(req Request) Acquisition { return p.acquire(req) }

func (p *Pool) acquire(req Request) *acquisition {
	g := groupOf(req)
	groups := p.byGroup[g]
	if req.Pool != "" {
		groups = slices.DeleteFunc(slices.Clone(groups), func(g *quotaGroup) bool { return g.pool != req.Pool })
	}
	return &acquisition{pool: p, req: req, models: g, groups: groups}
}

// candidates returns the accounts that the caller can use.
func (a *acquisition) candidates() []*member {
	if a.req.Email == "" {
		return a.pool.members
	}
	if m := a.pool.find(a.req.Email); m != nil {
		return []*member{m}
	}
	return nil
}

// allows reports whether the caller can use an account from a quota group.
func (a *acquisition) allows(m *member, g *quotaGroup) bool {
	return (a.req.Email == "" || m.email == a.req.Email) && (a.req.Pool == "" || g.pool == a.req.Pool)
}

// Next leases an account that can serve the request and has a valid access token. A session stays
// with its account while that is usable. When no account is usable but one will be in time, Next
// waits; waiting calls are served in their order. Otherwise the error is a *perigee.Error with the
// causes, and with the time after which to try again.
func (a *acquisition) Next(ctx context.Context) (Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(a.groups) == 0 {
		return nil, perigee.Errorf(perigee.ClassNotFound, "%s is only available from the pool %s", a.req.Model, PoolAntigravity).
			WithHint("add %s to pools of this upstream in the configuration", PoolAntigravity)
	}
	p := a.pool
	p.lock()
	a.began = p.now
	p.mu.Unlock()
	a.deadline = a.began + max(0, p.opts.MaxWait-a.waited)
	a.quotaRequested, a.overflow, a.over, a.tokens = false, false, false, a.refused
	a.recall(ctx)
	for !a.over {
		l, err := a.obtain(ctx)
		if err != nil && a.tokens.err != nil {
			break // it is more specific than an error that no account is left
		}
		if err != nil {
			return nil, err
		}
		if !l.paused(ctx) {
			l.release()
			return nil, ctx.Err()
		}
		took, err := l.getToken(ctx)
		if err == nil {
			return l, nil
		}
		if a.req.OnTokenFailure != nil && ctx.Err() == nil && !errors.Is(err, providererr.ErrRefreshPaused) {
			a.req.OnTokenFailure(l, err, took)
		}
	}
	return nil, a.tokens.err
}

// recordLost records that the call has lost an account to a cause, and reports whether it may lose
// no more to that cause.
func (a *acquisition) recordLost(kind providererr.Kind, m *member) (enough bool) {
	if a.lost == nil {
		a.lost = map[providererr.Kind][]*member{}
	}
	if !slices.Contains(a.lost[kind], m) {
		a.lost[kind] = append(a.lost[kind], m)
	}
	return len(a.lost[kind]) >= breakerMaxLost
}

// obtain chooses an account and waits for one if need be.
func (a *acquisition) obtain(ctx context.Context) (*lease, error) {
	p := a.pool
	p.lock()
	p.serveWaiters() // they come first
	l, result := a.attempt()
	switch result {
	case leaseFound:
		p.unlock()
		return l, nil
	case noLease:
		err := a.refusal()
		p.unlock()
		if a.awaitQuota(ctx, a.requestQuota()) {
			return a.obtain(ctx)
		}
		return nil, err
	}
	a.served = make(chan served, 1)
	p.waiters = append(p.waiters, a)
	limit := a.deadline - p.now
	p.unlock()
	if result == waitForAny {
		a.requestQuota() // an account that has quota again serves the call at once
	}
	return a.wait(ctx, limit)
}

// wait returns the lease or error for the waiting call. It gives up when its time is over.
func (a *acquisition) wait(ctx context.Context, limit time.Duration) (*lease, error) {
	p := a.pool
	select {
	case s := <-a.served:
		return s.lease, s.err
	case <-time.After(limit):
	case <-ctx.Done():
	}
	p.lock()
	if ctx.Err() == nil {
		p.serveWaiters() // this may be the very moment at which an account is back
	}
	if i := slices.Index(p.waiters, a); i >= 0 {
		p.waiters = slices.Delete(p.waiters, i, i+1)
		a.served <- served{err: a.refusal()}
	}
	p.unlock()
	s := <-a.served
	if err := ctx.Err(); err != nil {
		if s.lease != nil {
			s.lease.release()
		}
		return nil, err
	}
	return s.lease, s.err
}

// serveWaiters goes through the waiting calls, first come first served. A call that can no longer
// be served in time gets its refusal. The remaining ones are looked at again when the next cooldown
// ends.
func (p *Pool) serveWaiters() {
	if len(p.waiters) == 0 {
		return
	}
	type need struct {
		models             group
		model, email, pool string
	}
	waiting := map[need]instant{} // when the first account is back for calls that need the same
	p.waiters = slices.DeleteFunc(p.waiters, func(a *acquisition) bool {
		key := need{a.models, a.req.Model, a.req.Email, a.req.Pool}
		if at, ok := waiting[key]; ok && at <= a.deadline {
			return false // it needs the same as an earlier call that found no account
		}
		l, result := a.attempt()
		switch result {
		case leaseFound:
			a.served <- served{lease: l}
		case noLease:
			a.served <- served{err: a.refusal()}
		case waitForAny:
			if len(a.tokens.members) == 0 {
				waiting[key], _ = a.earliest()
			}
		}
		return result == leaseFound || result == noLease
	})
	if len(p.waiters) > 0 {
		p.setAlarm()
	}
}

// setAlarm has the waiting calls served when the next cooldown ends.
func (p *Pool) setAlarm() {
	var next instant
	for _, m := range p.members {
		for c := range m.active() {
			if next == 0 || c.until < next {
				next = c.until
			}
		}
	}
	switch {
	case next == 0:
	case p.alarm == nil:
		p.alarm = time.AfterFunc(next-p.now, func() { p.lock(); p.unlock() })
	default:
		p.alarm.Reset(next - p.now)
	}
}
