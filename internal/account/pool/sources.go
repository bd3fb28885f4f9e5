package pool

import (
	"log/slog"
	"slices"

	"perigee"
	"perigee/internal/adapt/providererr"
)

// SetSources sets the accounts and their order; their sign-ins may have changed. It takes effect at
// once, also for waiting calls. An account that was there before keeps its state. One that an
// answer of the provider has stopped comes back when its sign-in has changed since and is usable,
// or was disabled in between. Of several sources with the same address the first counts.
func (p *Pool) SetSources(sources []Source) {
	signIns := make([]perigee.SignIn, len(sources))
	for i, s := range sources {
		signIns[i] = s.SignIn()
	}
	p.lock()
	defer p.unlock()
	known := map[string]*member{}
	for _, m := range p.removed {
		known[m.email] = m
	}
	present := map[*member]bool{}
	for _, m := range p.members {
		known[m.email], present[m] = m, true
		m.index = -1
	}
	p.members, p.removed = nil, nil
	for i, s := range signIns {
		m := known[s.Email]
		switch {
		case m == nil:
			m = newMember(p, sources[i], s)
			known[s.Email] = m
		case m.index >= 0:
			continue
		default:
			m.renew(sources[i], s)
		}
		m.restore()
		if !present[m] { // the owner has added it, to have it used
			m.health, m.stopped, m.reason = newHealth(p.now), "", ""
			p.breaker.reset()
		}
		m.index = len(p.members)
		p.members = append(p.members, m)
	}
	for _, m := range known {
		if m.index < 0 && m.leases > 0 { // they count when it comes back
			p.removed = append(p.removed, m)
		}
	}
}

// Learn takes over the changed sign-in of an account that is in the pool already. It takes effect
// at once, also for waiting calls.
func (p *Pool) Learn(source Source) {
	s := source.SignIn()
	p.lock()
	defer p.unlock()
	m := p.find(s.Email)
	if m == nil || m.source != source {
		return // another sign-in has its place
	}
	was := m.inUse()
	m.renew(source, s)
	if was && !m.inUse() {
		p.logAfter(slog.LevelWarn, "account stopped", "account", m.email, "state", m.state(), "reason", m.signIn.Reason)
	}
}

// RefusedAgain reports that the provider has refused the access token of an account that was not
// leased, and the token that replaced it as well. The account gets the cooldown that a lease with
// that result would give it.
func (p *Pool) RefusedAgain(source Source) {
	email := source.SignIn().Email
	p.lock()
	defer p.unlock()
	if m := p.find(email); m != nil && m.source == source {
		m.startCooldown(&m.cooldowns[wholeAccount], failure{kind: providererr.KindUnauthenticated, began: p.now})
	}
}

// Report applies an answer of the provider about an account that was not leased. Only an error that
// affects the whole account and does not pass by itself counts: a call would meet any other.
func (p *Pool) Report(source Source, v providererr.Diagnosis) {
	s := source.SignIn()
	p.lock()
	defer p.unlock()
	m := p.find(s.Email)
	if m == nil || m.source != source {
		return
	}
	if v.Kind == providererr.KindProject {
		m.startCooldown(&m.cooldowns[wholeAccount], failure{kind: v.Kind, began: p.now})
		return
	}
	state := causeOf(v.Kind).state
	if state == "" {
		return
	}
	// All accounts are checked at once here, so that the same answer to all of them would stop all:
	// no more than breakerMaxLost are stopped.
	recent := slices.DeleteFunc(p.reports[v.Kind], func(s occurrence) bool { return p.now-s.at >= sameCause })
	if len(recent) < breakerMaxLost {
		recent = append(recent, occurrence{m, p.now})
		m.stop(source, state, v.Reason(), s.Generation)
	}
	p.reports[v.Kind] = recent
}
