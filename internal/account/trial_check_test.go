package account

import (
	"cmp"
	"slices"
	"time"

	"perigee"
)

// lend borrows, and checks everything that can be said about who was chosen and when.
func (x *trial) lend(w Want) {
	x.checkOutlooks()
	m, began := &x.model, time.Now()
	at, will := m.outlook(w, began)
	plan := x.Explain(w.Model)
	got, err := x.Borrow(w).Next(x.t.Context())
	now := time.Now()
	if err != nil {
		e := perigee.AsError(err)
		if m.spares(began) && slices.ContainsFunc(m.accounts, func(a *modelAccount) bool { return a.enabled && !a.banned && !a.removed }) &&
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
	l := got.(*loan)
	i, pool := place(l), l.lane.pool
	if m.spares(now) {
		x.wrong("%s was lent, although all are spared", name(l))
	}
	if !m.sparedTo.IsZero() {
		m.looksInto, m.sparedTo = l, now.Add(spareFor)
	}
	switch l.why.code {
	case whyProbe:
		x.checkProbe(l, will)
	case whyFaulty:
		x.checkFaulty(l, now)
	default:
		if !will || !now.Equal(cmp.Or(at, began)) {
			x.wrong("%s was lent at %s, expected at %s (%t)", name(l), now, at, will)
		}
		x.checkChoice(l, i, pool, now)
		if chosen := plan[0].Email + " " + plan[0].Pool; w.Session == "" && now.Equal(began) && chosen != l.Email()+" "+pool {
			x.wrong("%s was chosen (%s), but %s announced: %+v", name(l), l.Why(), chosen, plan)
		}
	}
	m.accounts[i].open++
	x.open = append(x.open, l)
	if c := m.opts.Concurrency; c > 0 && m.accounts[i].open > c {
		x.wrong("%s has %d loans", name(l), m.accounts[i].open)
	}
}

// checkOutlooks checks that what the lanes know about the members is what the members would say.
func (x *trial) checkOutlooks() {
	x.mu.Lock()
	defer x.unlock()
	now := x.advance()
	for _, m := range x.members {
		for _, l := range x.lanes {
			if got, want := l.outlooks[m.index], m.outlook(l, now); got != want {
				x.wrong("%s in %s of %s: %+v is known, and %+v true", m.email, l.group, l.pool, got, want)
			}
		}
		if x.faulty.has(m.index) != m.faults.active(now) {
			x.wrong("%s is known to be failed: %t", m.email, x.faulty.has(m.index))
		}
	}
}

// checkProbe checks a loan that cut a rest short.
func (x *trial) checkProbe(l *loan, will bool) {
	a, now := x.model.accounts[place(l)], time.Now()
	r := a.rests[modelLane(l.call.want, l.lane.pool)]
	told := r.until.After(now) && r.since.Add(believed).After(now)
	if will || told || !a.enabled || a.banned || a.removed || x.model.busy(place(l)) {
		x.wrong("%s was probed", name(l))
	}
}

// checkFaulty checks a loan of somebody whom the provider keeps failing: there must be nobody else.
func (x *trial) checkFaulty(l *loan, now time.Time) {
	m, w := &x.model, l.call.want
	if !m.onlyFaulty(place(l), w, l.lane.pool, now) {
		x.wrong("%s is not usable (%s)", name(l), l.Why())
	}
	if m.anyUsable(w, true, now) {
		x.wrong("%s keeps being failed, but others are usable", name(l))
	}
	for i, a := range m.accounts {
		if m.onlyFaulty(i, w, l.lane.pool, now) && a.faulty.Before(m.accounts[place(l)].faulty) {
			x.wrong("%s was failed later than %d", name(l), i)
		}
	}
	lane := modelLane(w, l.lane.pool)
	bound, known := m.bound[w.Session+lane[:len(lane)-len(l.lane.pool)]]
	if !known || !m.onlyBusy(bound.account, w, bound.pool) {
		m.bound[w.Session+lane[:len(lane)-len(l.lane.pool)]] = boundTo{place(l), l.lane.pool}
	}
}

func (x *trial) checkChoice(l *loan, i int, pool string, now time.Time) {
	m, w := &x.model, l.call.want
	if !m.usable(i, w, pool, now) {
		x.wrong("%s is not usable (%s)", name(l), l.Why())
		return
	}
	if m.spared(i, w, pool, now) && m.anyUsable(w, false, now) {
		x.wrong("%s is spared, but others are usable (%s)", name(l), l.Why())
	}
	good := func(i int, pool string) bool { return m.usable(i, w, pool, now) && !m.spared(i, w, pool, now) }
	lane := modelLane(w, pool)
	bound, known := m.bound[w.Session+lane[:len(lane)-len(pool)]]
	known = known && w.Session != ""
	if known && good(bound.account, bound.pool) && bound != (boundTo{i, pool}) && x.fit(bound.account) {
		x.wrong("the session left %d in %s for %s (%s)", bound.account, bound.pool, name(l), l.Why())
	}
	if l.why.code != whySession {
		x.checkOrder(l, i, pool, good)
	}
	if !known || !m.onlyBusy(bound.account, w, bound.pool) {
		m.bound[w.Session+lane[:len(lane)-len(pool)]] = boundTo{i, pool}
	}
}

// fit says whether hybrid selection would choose an account if it had to choose anew.
func (x *trial) fit(account int) bool {
	return x.model.opts.Selection != Hybrid || x.gauges[x.find(x.all[account].signIn.Email).index].fit(x.clock.read())
}

// checkOrder checks that an earlier pool had nobody, and that sticky stayed where it was.
func (x *trial) checkOrder(l *loan, i int, pool string, good func(i int, pool string) bool) {
	m, w := &x.model, l.call.want
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
	lane := modelLane(w, pool)
	if last, ok := m.current[lane]; ok && m.opts.Selection == Sticky && good(last, pool) && last != i {
		x.wrong("sticky left %d for %s (%s)", last, name(l), l.Why())
	}
	if last, ok := m.current[lane]; !ok || !m.onlyBusy(last, w, pool) {
		m.current[lane] = i
	}
}
