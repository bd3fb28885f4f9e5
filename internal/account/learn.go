package account

import (
	"slices"
	"time"

	"perigee/internal/verdict"
)

// What follows is how the pool learns about accounts outside of loans: from who refreshes their tokens in the background, and
// from who asks the provider about them.

// Learn takes over what has become of the sign-in of an account that is here already. It takes effect at once, also for
// those who wait.
func (p *Pool) Learn(source Source) {
	s := source.SignIn()
	p.mu.Lock()
	defer p.unlock()
	now := p.advance()
	m := p.find(s.Email)
	if m == nil || m.source != source {
		return // another sign-in has its place
	}
	was := m.inUse()
	p.renew(m, source, s, now)
	p.refresh(m, now)
	p.changed = true
	if was && !m.inUse() {
		logger, email, state, reason := p.opts.Logger, m.email, m.state(), m.signIn.Reason
		p.after = append(p.after, func() { logger.Warn("account stopped", "account", email, "state", state, "reason", reason) })
	}
}

// Report says what the provider has answered about an account that was not lent. What is not about the account as a whole, and
// what passes, changes nothing: a call would find it out.
func (p *Pool) Report(source Source, v verdict.Verdict) {
	s := source.SignIn()
	p.mu.Lock()
	defer p.unlock()
	now := p.advance()
	m := p.find(s.Email)
	if m == nil || m.source != source {
		return
	}
	if v.Kind == verdict.KindProject {
		p.restAfter(m, nil, &m.whole, failure{kind: verdict.KindProject, guess: projectRest, began: now}, now)
		return
	}
	if state := stateAfter(v.Kind); state != "" && p.reports.few(v.Kind, m, now) {
		p.stop(m, source, state, v.Reason(), s.Generation, now)
	}
}

// relieveProject ends the rests of a member that are about its project.
func (p *Pool) relieveProject(m *member, now instant) {
	for _, l := range p.lanes {
		if s := &m.slots[l.id]; s.kind == verdict.KindProject {
			p.relieve(m, l, s, now)
		}
	}
	if m.whole.kind == verdict.KindProject {
		p.relieve(m, nil, &m.whole, now)
	}
}

// projectRefused says whether a member rests because of its project.
func (m *member) projectRefused(now instant) bool {
	if m.whole.active(now) && m.whole.kind == verdict.KindProject {
		return true
	}
	for i := range m.slots {
		if s := &m.slots[i]; s.active(now) && s.kind == verdict.KindProject {
			return true
		}
	}
	return false
}

// UsedUp says until when an account rests because its quota for a model is used up in one of its pools. A report of its quota
// that is newer and shows some has ended that rest.
func (p *Pool) UsedUp(email, model, pool string) (until time.Time, ok bool) {
	p.mu.Lock()
	defer p.unlock()
	now := p.advance()
	m := p.find(email)
	if m == nil {
		return time.Time{}, false
	}
	for _, l := range p.byGroup[groupOf(Want{Model: model})] {
		s := &m.slots[l.id]
		if l.pool == pool && s.active(now) && usedUp(s.kind) {
			return p.clock.date(s.until, now).UTC(), true
		}
	}
	return time.Time{}, false
}

// reports are who was stopped for which cause by what was said outside of calls. There everybody is asked at once, so what
// all of them are told at the same time would cost all of them.
type reports map[verdict.Kind][]sighting

// few says whether a member may be stopped for a cause: not when two others just were.
func (r reports) few(kind verdict.Kind, m *member, now instant) bool {
	r[kind] = slices.DeleteFunc(r[kind], func(s sighting) bool { return now-s.at >= sameCause })
	if len(r[kind]) >= maxSpent {
		return false
	}
	r[kind] = append(r[kind], sighting{m, now})
	return true
}
