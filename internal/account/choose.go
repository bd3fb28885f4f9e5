package account

import (
	"time"

	"perigee/internal/verdict"
)

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
func (p *Pool) attempt(b *borrowing, now instant) (*loan, finding) {
	braked := p.brake.until > 0
	if braked && (p.spares(now) || b.group == groupControl) {
		return nil, nobody
	}
	l, got := p.choose(b, now)
	if braked && got == found {
		p.looksAfter(l, now)
	}
	return l, got
}

// choose looks for an account. Whom the call, its session or the lane is used to goes first; of the rest, those of
// whom enough is left, in the order of the pools; then those that are spared.
func (p *Pool) choose(b *borrowing, now instant) (*loan, finding) {
	if b.brief {
		if got, l := p.same(b, now); got != nobody {
			return l, got
		}
	}
	if b.failed != nil {
		if l, got, ok := p.instead(b, now); ok {
			return l, got
		}
	}
	bound, ok := p.sessions.find(b.want.Session, b.group)
	if ok && p.restsBriefly(bound.member, bound.lane, b, now) {
		return nil, waitForOne
	}
	b.overflow = ok && p.onlyBusy(bound.member, bound.lane, b.want.Model, now)
	for _, spared := range []bool{false, true} {
		if ok {
			c := p.usable(b, bound.lane, spared)
			if c.has(bound.member.index) && !p.overdone(bound, &c, now) {
				return p.lend(b, bound.member, bound.lane, why{code: whySession, spared: spared}, now), found
			}
		}
		for _, l := range b.lanes {
			if p.opts.Selection == Sticky && !spared && l.current != nil && p.restsBriefly(l.current, l, b, now) {
				return nil, waitForOne
			}
			c := p.usable(b, l, spared)
			if i, w := p.pick(b, l, &c, now); i >= 0 {
				w.spared = spared
				return p.lend(b, p.members[i], l, w, now), found
			}
		}
	}
	return p.none(b, now)
}

// same lends the account that the call had before, or waits for it.
func (p *Pool) same(b *borrowing, now instant) (finding, *loan) {
	m, l := b.member, b.lane
	c := p.usable(b, l, false)
	switch {
	case c.has(m.index):
		return found, p.lend(b, m, l, why{code: whySame}, now)
	case p.restsBriefly(m, l, b, now):
		return waitForOne, nil
	}
	return nobody, nil
}

// restsBriefly says whether a member will be back so soon that the call should wait for it, although others may be usable.
func (p *Pool) restsBriefly(m *member, l *lane, b *borrowing, now instant) bool {
	r := &m.slots[l.id].rest
	if !r.brief || !r.active(now) || r.until > b.deadline || p.busy.has(m.index) {
		return false
	}
	s := p.survey(l, b.want.Model)
	at, _, ok := s.back(m.index, now)
	return ok && at == r.until && !l.spared[b.want.Model].has(m.index)
}

// onlyBusy says whether nothing but its own loans keeps a member from being lent. It is not worth leaving it for good.
func (p *Pool) onlyBusy(m *member, l *lane, model string, now instant) bool {
	s := p.survey(l, model)
	at, _, ok := s.back(m.index, now)
	return ok && at == now && p.busy.has(m.index) && !l.spared[model].has(m.index)
}

// none decides what becomes of a call for which nobody is usable.
func (p *Pool) none(b *borrowing, now instant) (*loan, finding) {
	if m, l := p.leastFaulty(b, now); m != nil {
		return p.lend(b, m, l, why{code: whyFaulty}, now), found
	}
	if at, ok := p.earliest(b, now); ok && at <= b.deadline && b.deadline > now {
		return nil, waitForAny
	}
	for _, l := range b.lanes {
		if l.probedAt+probeEvery > now {
			continue
		}
		if m := p.worthProbing(l, b.want.Model, now); m != nil {
			l.probedAt = now
			return p.lend(b, m, l, why{code: whyProbe}, now), found
		}
	}
	return nil, nobody
}

// earliest is when the first member is back. A call that has met trouble with tokens waits only for those who have none.
func (p *Pool) earliest(b *borrowing, now instant) (first instant, ok bool) {
	for _, l := range b.lanes {
		s := p.survey(l, b.want.Model)
		for i := range s.outlooks {
			at, kind, will := s.back(i, now)
			if b.tokenErr != nil && (kind == verdict.KindNoToken || b.excludes(p.members[i])) {
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
	oldest, s := instant(0), p.survey(l, model)
	for i := range s.outlooks {
		at, ok := s.doubtAt(i, now)
		if ok && at <= now && !p.busy.has(i) && (best == nil || at < oldest) {
			best, oldest = p.members[i], at
		}
	}
	return best
}

// pick chooses from those who are usable in a lane; -1: there is nobody.
func (p *Pool) pick(b *borrowing, l *lane, c *choice, now instant) (int, why) {
	switch p.opts.Selection {
	case RoundRobin:
		i := c.next(l.turn)
		if i >= 0 {
			l.turn = i
		}
		return i, why{code: whyTurn}
	case Hybrid:
		return p.weigh(b, l, c, now)
	}
	return p.stay(b, l, c, now)
}

// stay is the sticky choice: the current account, or else the next one, which becomes the current one unless the current
// one is only busy.
func (p *Pool) stay(b *borrowing, l *lane, c *choice, now instant) (int, why) {
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
	if p.onlyBusy(from, l, b.want.Model, now) {
		return i, why{code: whyOverflow}
	}
	s := p.survey(l, b.want.Model)
	at, kind, _ := s.back(from.index, now)
	l.current = p.members[i]
	return i, why{code: whyMoved, from: from.email, kind: kind, until: p.clock.date(at, now)}
}

// lend gives a member to a call.
func (p *Pool) lend(b *borrowing, m *member, l *lane, w why, now instant) *loan {
	m.lent++
	p.refreshBusy(m)
	p.gauges[m.index].spend(now)
	if b.want.Session != "" && !b.overflow && w.code != whyProbe && w.code != whyInstead {
		p.bind(b.want.Session, b.group, binding{m, l})
	}
	w.selection, w.only = p.opts.Selection, len(p.members) == 1
	w.waited = now - b.began
	return &loan{call: b, pool: p, member: m, source: m.source, lane: l, why: w, began: now}
}
