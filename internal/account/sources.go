package account

import (
	"cmp"
	"slices"

	"perigee"
	"perigee/internal/verdict"
)

// SetSources says which accounts there are, in which order, and that their sign-ins may have changed. It takes effect at
// once, also for those who wait. An account that was there before keeps what is known about it; one that the provider's
// answers have stopped comes back when its sign-in has changed since and is usable, or was disabled in between. Of
// several with the same address the first counts.
func (p *Pool) SetSources(sources []Source) {
	signIns := make([]perigee.SignIn, len(sources))
	for i, s := range sources {
		signIns[i] = s.SignIn()
	}
	p.mu.Lock()
	defer p.unlock()
	now := p.advance()
	known, gauges := p.dismiss()
	for i, s := range signIns {
		m := known[s.Email]
		switch {
		case m == nil:
			m = &member{email: s.Email, source: sources[i], signIn: s}
			known[s.Email] = m
			p.share(m, now)
		case m.index >= 0:
			continue
		default:
			p.renew(m, sources[i], s, now)
			p.share(m, now)
		}
		g, ok := gauges[m]
		if !ok {
			g = newGauge(now)
			m.stopped, m.reason = "", ""
			p.lift() // somebody has brought it, to have it used
		}
		m.index = len(p.members)
		p.members, p.gauges = append(p.members, m), append(p.gauges, g)
	}
	for _, m := range known {
		if m.index < 0 && m.lent > 0 {
			p.removed = append(p.removed, m)
		}
	}
	p.reindex(now)
	p.changed = true
}

// dismiss empties the pool, and returns by their addresses those who were in it and those who had been removed but still
// have loans out, as those count when they come back.
func (p *Pool) dismiss() (known map[string]*member, gauges map[*member]gauge) {
	known = make(map[string]*member, len(p.members))
	gauges = make(map[*member]gauge, len(p.members))
	for _, m := range p.removed {
		known[m.email] = m
	}
	for i, m := range p.members {
		known[m.email], gauges[m] = m, p.gauges[i]
		m.index = -1
	}
	p.members, p.gauges, p.removed = nil, nil, nil
	return known, gauges
}

// renew takes over a sign-in that may have changed. What was read before the pool learned more is old.
func (p *Pool) renew(m *member, source Source, s perigee.SignIn, now instant) {
	if source == m.source && s.Generation < m.signIn.Generation {
		return
	}
	if s.ProjectID != m.signIn.ProjectID {
		p.relieveProject(m, now)
	}
	wasOut := !m.signIn.Enabled || !perigee.UsableState(m.state())
	if !perigee.UsableState(s.State) || !s.Enabled || !m.signIn.Enabled || s.Generation != m.stoppedAs {
		m.stopped, m.reason = "", ""
	}
	if source != m.source || wasOut && m.stopped == "" && s.Enabled && perigee.UsableState(s.State) {
		p.lift() // its owner wants it used
	}
	m.source, m.signIn = source, s
}

// reindex makes all sets anew after members have got other places.
func (p *Pool) reindex(now instant) {
	p.busy, p.faulty = newBitset(len(p.members)), newBitset(len(p.members))
	for _, l := range p.lanes {
		l.ready, l.outlooks = newBitset(len(p.members)), make([]outlook, len(p.members))
		clear(l.lacking)
		clear(l.spared)
		l.turn = min(l.turn, len(p.members)-1)
	}
	for _, m := range p.members {
		p.refresh(m, now)
		for key, r := range m.lacks {
			p.mark(p.lanes[key.lane].lacking, key.model, m, r.active(now))
		}
		for model, q := range m.quota {
			p.spare(m, model, q, now)
		}
	}
}

// Use makes an account the one that sticky selection stays with from now on; sessions may move to it as well. It is for the
// person who wants this account used, so what the account rests from is forgotten too.
func (p *Pool) Use(email string) error {
	p.mu.Lock()
	defer p.unlock()
	now := p.advance()
	m := p.find(email)
	if m == nil {
		return unknown(email)
	}
	p.forget(m, now)
	p.forgetSessions()
	p.lift()
	for _, l := range p.lanes {
		l.current, l.turn = m, m.index-1
	}
	return nil
}

// Clear ends all rests of an account, or of all accounts when email is empty, and has nobody spared any longer. If they still
// have to rest, the provider will say so again.
func (p *Pool) Clear(email string) error {
	p.mu.Lock()
	defer p.unlock()
	now := p.advance()
	m := p.find(email)
	if m == nil && email != "" {
		return unknown(email)
	}
	for _, each := range p.members {
		if m == nil || m == each {
			p.forget(each, now)
		}
	}
	p.lift()
	return nil
}

func (p *Pool) find(email string) *member {
	i := slices.IndexFunc(p.members, func(m *member) bool { return m.email == email })
	if i < 0 {
		return nil
	}
	return p.members[i]
}

func unknown(email string) error {
	return perigee.Errorf(perigee.ClassNotFound, "there is no account %s", email).WithNext("see `perigee account list`")
}

// forget ends all rests of a member.
func (p *Pool) forget(m *member, now instant) {
	for key := range m.lacks {
		p.unlack(m, key)
	}
	for _, l := range p.lanes {
		p.relieve(m, l, &m.slots[l.id], now)
	}
	p.relieve(m, nil, &m.whole, now)
	p.relieve(m, nil, &m.faults, now)
}

func (p *Pool) relieve(m *member, l *lane, s *slot, now instant) {
	s.failures, s.briefs = 0, 0
	if s.active(now) {
		p.wake(m, l, s, now)
	}
}

// A Standing is how an account stands: its state, and what it rests from.
type Standing struct {
	perigee.Account
	Reason  string // why it cannot be used; empty when it can, or when its rests say it all
	Refused string // the project that the provider does not let it use; empty: none
}

// Status lists the accounts as they stand.
func (p *Pool) Status() []Standing {
	p.mu.Lock()
	defer p.unlock()
	now := p.advance()
	list := make([]Standing, len(p.members))
	for i, m := range p.members {
		s := Standing{Account: m.signIn.Account}
		s.State, s.Cooldowns = m.state(), p.cooldowns(m, now)
		if !perigee.UsableState(s.State) {
			s.Reason = cmp.Or(m.reason, m.signIn.Reason)
		} else if m.projectRefused(now) {
			s.Reason, s.Refused = m.says(verdict.KindProject), m.signIn.ProjectID
		}
		if m.inUse() && p.spares(now) {
			s.Reason = p.spared()
			until := p.clock.date(max(p.brake.until, now), now).UTC()
			s.Cooldowns = append(s.Cooldowns, perigee.Cooldown{Until: until, Reason: reasonSpared})
		}
		list[i] = s
	}
	return list
}
