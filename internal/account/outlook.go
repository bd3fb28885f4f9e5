package account

import "perigee/internal/verdict"

// An outlook is when a member is usable in a lane again. Lanes keep those of all members side by side, as who finds nobody
// goes through all of them: a thousand members themselves are too large for that to be quick. Members that lack a model are
// not usable for it in addition, see survey.
type outlook struct {
	inUse bool
	told  bool         // the provider said how long it rests
	back  instant      // when its rests are over; not after the present: it does not rest
	doubt instant      // when they may be cut short to see whether they are still needed
	kind  verdict.Kind // what it rests from
}

// outlook is worked out whenever something about the member has changed, and when one of its rests is over. A guess may be
// doubted after probeEvery, what the provider told when it was believed for long.
func (m *member) outlook(l *lane, now instant) outlook {
	o := outlook{inUse: m.inUse()}
	if !o.inUse {
		return o
	}
	for _, r := range [...]*rest{&m.whole.rest, &m.faults.rest, &m.slots[l.id].rest} {
		if !r.active(now) {
			continue
		}
		if r.until > o.back {
			o.back, o.kind = r.until, r.kind
		}
		o.doubt = max(o.doubt, r.doubtAt())
		o.told = o.told || r.told
	}
	return o
}

// doubtAt is from when on a rest may be cut short, if nobody else can be lent.
func (r *rest) doubtAt() instant {
	if r.told {
		return r.since + believed
	}
	return r.since + probeEvery
}

// refresh notes how a member stands in its lanes.
func (p *Pool) refresh(m *member, now instant) {
	if m.index < 0 {
		return
	}
	p.faulty.set(m.index, m.faults.active(now))
	for _, l := range p.lanes {
		o := m.outlook(l, now)
		ready := o.inUse && o.back <= now
		if ready && !l.ready.has(m.index) {
			p.changed = true
		}
		l.ready.set(m.index, ready)
		l.outlooks[m.index] = o
	}
	p.refreshBusy(m)
}

// refreshBusy notes whether a member has as many loans as it may.
func (p *Pool) refreshBusy(m *member) {
	if m.index < 0 {
		return
	}
	busy := p.opts.Concurrency > 0 && m.lent >= p.opts.Concurrency
	if !busy && p.busy.has(m.index) {
		p.changed = true
	}
	p.busy.set(m.index, busy)
}

// A survey is a lane as the calls for one model see it.
type survey struct {
	*lane
	members []*member
	model   string
	without bitset // members that lack the model
}

func (p *Pool) survey(l *lane, model string) survey {
	return survey{l, p.members, model, l.lacking[model]}
}

// back is when a member is usable again, and what it waits for; the present when only its own loans stand in the way. It is
// not ok for those who do not come back by themselves.
func (s *survey) back(i int, now instant) (at instant, kind verdict.Kind, ok bool) {
	if i < 0 || !s.outlooks[i].inUse {
		return 0, "", false
	}
	if s.without.has(i) {
		r := s.members[i].lack(s.lane, s.model)
		return r.until, r.kind, false
	}
	if o := &s.outlooks[i]; o.back > now {
		return o.back, o.kind, true
	}
	return now, kindBusy, true
}

// doubtAt is when a member may be lent although it rests, if nobody else can be. It is not ok for those who do not rest.
func (s *survey) doubtAt(i int, now instant) (at instant, ok bool) {
	o := &s.outlooks[i]
	if !o.inUse {
		return 0, false
	}
	at, ok = o.doubt, o.back > now
	if s.without.has(i) {
		r := s.members[i].lack(s.lane, s.model)
		at, ok = max(at, r.doubtAt()), true
	}
	return at, ok
}

// guessEnds is when a rest that is nothing but a guess may be cut short.
func (s *survey) guessEnds(i int, now instant) (at instant, ok bool) {
	if o := &s.outlooks[i]; o.told && o.back > now {
		return 0, false
	}
	at, ok = s.doubtAt(i, now)
	return max(at, s.probedAt+probeEvery), ok
}
