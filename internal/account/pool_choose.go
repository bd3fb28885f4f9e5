package account

import "time"

// A finding is what comes of looking for an account.
type finding int

const (
	found      finding = iota // there is a loan
	waitForOne                // the account that is best for the call will be back in a moment
	waitForAny                // nobody is usable now, but somebody will be in time
	nobody                    // nobody will be in time
)

// probeEvery is how often at most a lane in which everybody rests may have a guessed rest cut short.
const probeEvery = time.Minute

// attempt looks for an account, unless all are spared. When they were long enough, the call that gets one looks whether that
// is still needed.
func (p *Pool) attempt(a *asking, now instant) (*loan, finding) {
	braked := p.brake.until > 0
	if braked && (p.spares(now) || a.group == groupControl) {
		return nil, nobody
	}
	l, got := p.choose(a, now)
	if braked && got == found {
		p.looksAfter(l, now)
	}
	return l, got
}

// choose looks for an account. Whom the call, its session or the lane is used to goes first; of the rest, those of
// whom enough is left, in the order of the pools; then those that are spared.
func (p *Pool) choose(a *asking, now instant) (*loan, finding) {
	if t := a.trail; t.brief {
		if got, l := p.again(a, t.member, t.lane, now); got != nobody {
			return l, got
		}
	}
	if a.trail.failed != nil {
		if l, got, ok := p.instead(a, now); ok {
			return l, got
		}
	}
	bound, ok := p.sessions.find(a.want.Session, a.group)
	if ok && p.restsBriefly(bound.member, bound.lane, a, now) {
		return nil, waitForOne
	}
	a.overflow = ok && p.onlyBusy(bound.member, bound.lane, a.want.Model, now)
	for _, spared := range []bool{false, true} {
		if ok {
			c := p.usable(a, bound.lane, spared)
			if c.has(bound.member.index) && !p.overdone(bound, &c, now) {
				return p.lend(a, bound.member, bound.lane, why{code: whySession, spared: spared}, now), found
			}
		}
		for _, l := range a.lanes {
			if p.opts.Selection == Sticky && !spared && l.current != nil && p.restsBriefly(l.current, l, a, now) {
				return nil, waitForOne
			}
			c := p.usable(a, l, spared)
			if i, w := p.pick(a, l, &c, now); i >= 0 {
				w.spared = spared
				return p.lend(a, p.members[i], l, w, now), found
			}
		}
	}
	return p.none(a, now)
}

// again lends the account that the call had before, or waits for it.
func (p *Pool) again(a *asking, m *member, l *lane, now instant) (finding, *loan) {
	c := p.usable(a, l, false)
	switch {
	case c.has(m.index):
		return found, p.lend(a, m, l, why{code: whySame}, now)
	case p.restsBriefly(m, l, a, now):
		return waitForOne, nil
	}
	return nobody, nil
}

// restsBriefly says whether a member will be back so soon that the call should wait for it, although others may be usable.
func (p *Pool) restsBriefly(m *member, l *lane, a *asking, now instant) bool {
	r := &m.slots[l.id].rest
	if !r.brief || !r.active(now) || r.until > a.deadline || p.busy.has(m.index) {
		return false
	}
	at, _, ok := m.back(l, a.want.Model, now)
	return ok && at == r.until && !l.spared[a.want.Model].has(m.index)
}

// onlyBusy says whether nothing but its own loans keeps a member from being lent. It is not worth leaving it for good.
func (p *Pool) onlyBusy(m *member, l *lane, model string, now instant) bool {
	at, _, ok := m.back(l, model, now)
	return ok && at == now && p.busy.has(m.index) && !l.spared[model].has(m.index)
}

// none decides what becomes of a call for which nobody is usable.
func (p *Pool) none(a *asking, now instant) (*loan, finding) {
	if m, l := p.leastFaulty(a, now); m != nil {
		return p.lend(a, m, l, why{code: whyFaulty}, now), found
	}
	if at, ok := p.earliest(a, now); ok && at <= a.deadline && a.deadline > now {
		return nil, waitForAny
	}
	for _, l := range a.lanes {
		if l.probedAt+probeEvery > now {
			continue
		}
		if m := p.worthProbing(l, a.want.Model, now); m != nil {
			l.probedAt = now
			return p.lend(a, m, l, why{code: whyProbe}, now), found
		}
	}
	return nil, nobody
}

// earliest is when the first member is back. A call that has met trouble with tokens waits only for those who have none.
func (p *Pool) earliest(a *asking, now instant) (first instant, ok bool) {
	for _, l := range a.lanes {
		for _, m := range p.members {
			at, kind, will := m.back(l, a.want.Model, now)
			if a.tokenErr != nil && (kind == KindNoToken || a.excludes(m)) {
				continue
			}
			if will && (!ok || at < first) {
				first, ok = at, true
			}
		}
	}
	return first, ok
}

// worthProbing is who has rested longest of those whose rest is old enough to be doubted; nil: there is nobody.
func (p *Pool) worthProbing(l *lane, model string, now instant) (best *member) {
	oldest := instant(0)
	for _, m := range p.members {
		at, ok := m.doubtAt(l, model, now)
		if ok && at <= now && !p.busy.has(m.index) && (best == nil || at < oldest) {
			best, oldest = m, at
		}
	}
	return best
}

// doubtAt is when a member may be lent for a lane although it rests, if nobody else can be: a guess may be doubted after
// probeEvery, what the provider told when it was believed for long. It is not ok for those who do not rest.
func (m *member) doubtAt(l *lane, model string, now instant) (at instant, ok bool) {
	if !m.inUse() {
		return 0, false
	}
	lack := m.lack(l, model)
	for _, r := range [...]*rest{&m.slots[l.id].rest, &m.whole.rest, &m.faults.rest, &lack} {
		if !r.active(now) {
			continue
		}
		doubt := r.since + probeEvery
		if r.told {
			doubt = r.since + believed
		}
		at, ok = max(at, doubt), true
	}
	return at, ok
}

// pick chooses from those who are usable in a lane; -1: there is nobody.
func (p *Pool) pick(a *asking, l *lane, c *choice, now instant) (int, why) {
	switch p.opts.Selection {
	case RoundRobin:
		i := c.next(l.turn)
		if i >= 0 {
			l.turn = i
		}
		return i, why{code: whyTurn}
	case Hybrid:
		return p.weigh(a, l, c, now)
	}
	return p.stay(a, l, c, now)
}

// stay is the sticky choice: the current account, or else the next one, which becomes the current one unless the current
// one is only busy.
func (p *Pool) stay(a *asking, l *lane, c *choice, now instant) (int, why) {
	from := l.current
	if from == nil || from.index < 0 {
		i := c.next(l.turn)
		if i >= 0 {
			l.current = p.members[i]
		}
		return i, why{code: whyFirst}
	}
	if c.has(from.index) {
		return from.index, why{code: whyStay}
	}
	i := c.next(from.index)
	if i < 0 {
		return i, why{}
	}
	if p.onlyBusy(from, l, a.want.Model, now) {
		return i, why{code: whyOverflow}
	}
	at, kind, _ := from.back(l, a.want.Model, now)
	l.current = p.members[i]
	return i, why{code: whyMoved, from: from.email, kind: kind, until: p.clock.date(at, now)}
}

// lend gives a member to a call.
func (p *Pool) lend(a *asking, m *member, l *lane, w why, now instant) *loan {
	m.lent++
	p.refresh(m, now)
	p.gauges[m.index].spend(now)
	if a.want.Session != "" && !a.overflow && w.code != whyProbe && w.code != whyInstead {
		p.bind(a.want.Session, a.group, binding{m, l})
	}
	w.selection = p.opts.Selection
	w.waited = now - a.began
	return &loan{pool: p, member: m, source: m.source, lane: l, want: a.want, trail: a.trail, why: w, began: now,
		waited: a.trail.waited + w.waited}
}
