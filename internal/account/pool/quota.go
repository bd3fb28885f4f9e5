package pool

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"perigee"
	"perigee/internal/adapt/providererr"
)

const (
	quotaAge = 15 * time.Minute // how long reported figures are used
	// someLeft is the remaining fraction of a quota from which a refusal has another cause.
	someLeft = 0.05

	// lookEvery is how often at most a Look reads the quota of an account.
	lookEvery = time.Minute
	// lookAfterWrong is the same after figures have ended a cooldown that was still needed.
	lookAfterWrong = 15 * time.Minute
	lookWait       = 5 * time.Second // how long a call waits for the figures, if it may wait
)

// A Look reads the remaining quota of accounts from the provider, and reports it to the pool. It
// returns at once, with a channel that is closed when all is reported; nil if it does not look.
type Look func(emails []string) <-chan struct{}

// A remainder is the remaining part of a quota.
type remainder struct {
	fraction float64
	until    instant // when that is out of date
}

// exhausted reports whether a cooldown of this kind means that a quota is used up.
func exhausted(kind providererr.Kind) bool {
	return kind == providererr.KindQuota || kind == providererr.KindCredits
}

func (o *Options) belowSoftQuota(left float64) bool {
	return o.SoftQuota > 0 && o.SoftQuota < 1 && 1-left >= o.SoftQuota-1e-9
}

// ReportQuota reports the remaining quota of an account at a time. A cooldown of a quota that was
// used up ends if some has returned. Accounts that have used more than the soft quota of
// PoolAntigravity are passed over for a while; PoolCLI does not report all its models. Figures that
// are old, or about an account that is not in the pool, are ignored.
func (p *Pool) ReportQuota(email string, rows []perigee.QuotaRow, at time.Time) {
	p.lock()
	defer p.unlock()
	age := max(0, p.opts.Now().Sub(at))
	m := p.find(email)
	if m == nil || age >= quotaAge {
		return
	}
	figures, least := map[string]map[string]remainder{}, map[*quotaGroup]remainder{}
	for _, q := range rows {
		r := remainder{fraction: q.Remaining, until: p.now - age + quotaAge}
		if reset := q.ResetsAt.Sub(p.opts.Now()); !q.ResetsAt.IsZero() && reset > 0 {
			r.until = min(r.until, p.now+reset) // then it is whole again
		}
		if figures[q.Pool] == nil {
			figures[q.Pool] = map[string]remainder{}
		}
		figures[q.Pool][q.Model] = r
		for _, g := range p.byGroup[groupOf(Request{Model: q.Model})] {
			if known, ok := least[g]; g.pool == q.Pool && g.group != groupControl && (!ok || r.fraction < known.fraction) {
				least[g] = r
			}
		}
	}
	if list := figures[PoolAntigravity]; list != nil {
		m.learnQuota(list, least, p.now-age)
	}
	for g, r := range least {
		if q, ok := figures[g.pool][m.cooldowns[g.id].model]; ok {
			r = q
		}
		m.quotaReturned(g, r.fraction, p.now-age)
	}
}

// learnQuota takes over the figures of PoolAntigravity.
func (m *member) learnQuota(figures map[string]remainder, least map[*quotaGroup]remainder, reported instant) {
	p := m.pool
	m.quota, m.low = figures, false
	for model, r := range figures {
		m.low = m.low || p.opts.belowSoftQuota(r.fraction)
		p.served.Put(model, p.now)
	}
	for g, r := range least {
		if g.pool == PoolAntigravity && g.group != groupOther { // which has no common quota
			m.least[g.id] = r
		}
	}
	if c := &m.cooldowns[wholeAccount]; c.until > p.now && c.kind == providererr.KindProject && reported > max(c.since, c.failedAt) {
		m.clearCooldown(c) // the figures were asked for with that project
	}
}

// quotaReturned ends the cooldown of a quota that was used up, if a later report shows that some is
// left: of the model that was asked, or where that is not known of all.
func (m *member) quotaReturned(g *quotaGroup, left float64, reported instant) {
	c, now := &m.cooldowns[g.id], m.pool.now
	if left <= 0 || c.until <= now || !exhausted(c.kind) || reported <= max(c.since, c.failedAt) {
		return
	}
	c.endedAt = now
	m.clearCooldown(c)
	m.pool.logAfter(slog.LevelInfo, "account has quota again",
		"account", m.email, "family", g.group, "pool", g.pool, "left", percent(left))
}

// Exhausted returns until when an account cools down because its quota for a model is used up in
// one of its pools.
func (p *Pool) Exhausted(email, model, pool string) (until time.Time, ok bool) {
	p.lock()
	defer p.unlock()
	m := p.find(email)
	if m == nil {
		return time.Time{}, false
	}
	for _, g := range p.byGroup[groupOf(Request{Model: model})] {
		if c := &m.cooldowns[g.id]; g.pool == pool && c.until > p.now && exhausted(c.kind) {
			return p.date(c.until).UTC(), true
		}
	}
	return time.Time{}, false
}

// hasQuota reports whether the account of a lease is known to have quota left for the model.
func (l *lease) hasQuota() bool {
	q, ok := l.member.quota[l.call.req.Model]
	return ok && l.group.pool == PoolAntigravity && q.until > l.pool.now && q.fraction >= someLeft
}

// requestQuota requests the quota of the accounts that the call could not get because their quota
// was used up. It returns a channel to wait for, or nil if there is nothing to wait for. It is
// called without the lock.
func (a *acquisition) requestQuota() <-chan struct{} {
	p := a.pool
	if p.opts.Look == nil || a.quotaRequested {
		return nil
	}
	a.quotaRequested = true
	p.lock()
	emails, running := a.exhaustedAccounts(), p.looking
	p.mu.Unlock()
	if len(emails) == 0 {
		return running // the figures that another call has requested serve this one
	}
	done := p.opts.Look(emails)
	if done != nil {
		p.mu.Lock()
		p.looking = done
		p.mu.Unlock()
	}
	return done
}

// exhaustedAccounts lists the accounts of which the quota may have returned and was not read
// lately.
func (a *acquisition) exhaustedAccounts() (emails []string) {
	p := a.pool
	if p.breaker.tripped() {
		return nil // no account is to be used for anything
	}
	for _, m := range a.candidates() {
		if m.inUse() && m.lookAt <= p.now && slices.ContainsFunc(a.groups, func(g *quotaGroup) bool {
			c := &m.cooldowns[g.id]
			return c.until > p.now && exhausted(c.kind) && c.since+lookEvery <= p.now
		}) {
			m.lookAt = p.now + lookEvery
			emails = append(emails, m.email)
		}
	}
	return emails
}

// awaitQuota waits for figures as long as the call may, and reports whether there are any.
func (a *acquisition) awaitQuota(ctx context.Context, done <-chan struct{}) bool {
	a.pool.lock()
	left := min(a.deadline-a.pool.now, lookWait)
	a.pool.mu.Unlock()
	if done == nil || left <= 0 {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}
