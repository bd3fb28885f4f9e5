package pool

import (
	"cmp"
	"slices"
	"time"

	"perigee"
)

// lend acquires an account, and checks everything that can be said about the choice and its time.
func (x *trial) lend(w Request) {
	m, began := &x.model, time.Now()
	at, will := m.outlook(w, began)
	plan := x.Explain(Request{Model: w.Model})
	got, err := x.Acquire(w).Next(x.t.Context())
	now := time.Now()
	if err != nil {
		e := perigee.AsError(err)
		if m.open(began) && slices.ContainsFunc(m.accounts, func(a *modelAccount) bool { return a.enabled && !a.banned && !a.removed }) &&
			(e.Class != perigee.ClassForbidden || e.Retry <= 0 || !now.Equal(began)) {
			x.wrong("%s in %s while all are spared: %v", e.Class, e.Retry, err)
		}
		if will {
			x.wrong("failed, although somebody is usable at %s: %v", at, err)
		}
		if (e.Class == perigee.ClassExhausted || e.Class == perigee.ClassRateLimited) && e.Retry <= 0 {
			x.wrong("%s without a time", e.Class)
		}
		return
	}
	l := got.(*lease)
	i, pool := place(l), l.group.pool
	if m.open(now) {
		x.wrong("%s was lent, although all are spared", name(l))
	}
	if !m.sparedTo.IsZero() {
		m.looksInto, m.sparedTo = l, now.Add(breakerOpenFor)
	}
	switch l.why.reason {
	case whyProbe:
		x.checkProbe(l, will)
	case whyFaulty:
		x.checkFaulty(l, now)
	default:
		if !will || !now.Equal(cmp.Or(at, began)) {
			x.wrong("%s was lent at %s, expected at %s (%t)", name(l), now, at, will)
		}
		x.checkChoice(l, i, pool, now)
		if chosen := plan[0].Email + " " + plan[0].Pool; w.Session == "" && now.Equal(began) && chosen != l.Account().Email+" "+pool {
			x.wrong("%s was chosen (%s), but %s announced: %+v", name(l), l.Account().Why, chosen, plan)
		}
	}
	m.accounts[i].open++
	x.open = append(x.open, l)
	if c := m.opts.Concurrency; c > 0 && m.accounts[i].open > c {
		x.wrong("%s has %d leases", name(l), m.accounts[i].open)
	}
}

// checkProbe checks a lease that cut a rest short.
func (x *trial) checkProbe(l *lease, will bool) {
	a, now := x.model.accounts[place(l)], time.Now()
	r := a.rests[modelGroup(l.call.req, l.group.pool)]
	told := r.until.After(now) && r.since.Add(believed).After(now)
	if will || told || !a.enabled || a.banned || a.removed || x.model.busy(place(l)) {
		x.wrong("%s was probed", name(l))
	}
}

// checkFaulty checks a lease of an account that the provider keeps failing: there must be no other.
func (x *trial) checkFaulty(l *lease, now time.Time) {
	m, w := &x.model, l.call.req
	if !m.onlyFaulty(place(l), w, l.group.pool, now) {
		x.wrong("%s is not usable (%s)", name(l), l.Account().Why)
	}
	if m.anyUsable(w, true, now) {
		x.wrong("%s keeps being failed, but others are usable", name(l))
	}
	for i, a := range m.accounts {
		if m.onlyFaulty(i, w, l.group.pool, now) && a.faulty.Before(m.accounts[place(l)].faulty) {
			x.wrong("%s was failed later than %d", name(l), i)
		}
	}
	group := modelGroup(w, l.group.pool)
	bound, known := m.bound[w.Session+group[:len(group)-len(l.group.pool)]]
	if !known || !m.onlyBusy(bound.account, w, bound.pool) {
		m.bound[w.Session+group[:len(group)-len(l.group.pool)]] = boundTo{place(l), l.group.pool}
	}
}

func (x *trial) checkChoice(l *lease, i int, pool string, now time.Time) {
	m, w := &x.model, l.call.req
	if !m.usable(i, w, pool, now) {
		x.wrong("%s is not usable (%s)", name(l), l.Account().Why)
		return
	}
	if m.spared(i, w, pool, now) && m.anyUsable(w, false, now) {
		x.wrong("%s is spared, but others are usable (%s)", name(l), l.Account().Why)
	}
	good := func(i int, pool string) bool { return m.usable(i, w, pool, now) && !m.spared(i, w, pool, now) }
	group := modelGroup(w, pool)
	bound, known := m.bound[w.Session+group[:len(group)-len(pool)]]
	known = known && w.Session != ""
	if known && good(bound.account, bound.pool) && bound != (boundTo{i, pool}) && x.fit(bound.account) {
		x.wrong("the session left %d in %s for %s (%s)", bound.account, bound.pool, name(l), l.Account().Why)
	}
	if l.why.reason != whySession {
		x.checkOrder(l, i, pool, good)
	}
	if !known || !m.onlyBusy(bound.account, w, bound.pool) {
		m.bound[w.Session+group[:len(group)-len(pool)]] = boundTo{i, pool}
	}
}

// fit reports whether hybrid selection would choose an account if it had to choose anew.
func (x *trial) fit(account int) bool {
	return x.model.opts.Selection != Hybrid || x.find(x.all[account].signIn.Email).health.fit(x.clock.Now())
}

// checkOrder checks that an earlier pool had no account, and that sticky stayed where it was.
func (x *trial) checkOrder(l *lease, i int, pool string, good func(i int, pool string) bool) {
	m, w := &x.model, l.call.req
	for _, earlier := range m.pools(w) {
		if earlier == pool {
			break
		}
		for j := range m.accounts {
			if good(j, earlier) {
				x.wrong("%s was chosen, although %d is usable from %s", name(l), j, earlier)
			}
		}
	}
	group := modelGroup(w, pool)
	if last, ok := m.current[group]; ok && m.opts.Selection == Sticky && good(last, pool) && last != i {
		x.wrong("sticky left %d for %s (%s)", last, name(l), l.Account().Why)
	}
	if last, ok := m.current[group]; !ok || !m.onlyBusy(last, w, pool) {
		m.current[group] = i
	}
}
