package pool

import (
	"fmt"
	"slices"
	"time"

	"perigee/internal/adapt/providererr"
)

// A searchResult is the result of looking for an account.
type searchResult int

const (
	leaseFound searchResult = iota // there is a lease
	waitForOne                     // the account that is best for the call will be back in a moment
	waitForAny                     // no account is usable now, but one will be in time
	noLease                        // no account will be usable in time
)

// attempt looks for an account, unless the breaker is open. When a probe is due, the call that gets
// an account is the probe.
func (a *acquisition) attempt() (*lease, searchResult) {
	p := a.pool
	if p.breaker.blocks(a.models != groupControl, p.now) {
		return nil, noLease
	}
	l, result := a.choose()
	if result == leaseFound {
		p.breaker.startProbe(l, p.now)
	}
	return l, result
}

// eligible reports whether an account can be leased to the call from a quota group now. Accounts
// with low quota are eligible only where low is true; see choose.
func (a *acquisition) eligible(m *member, g *quotaGroup, low bool) bool {
	v := m.availability(g, a.req.Model)
	return v.free && (low || !v.low) && a.allows(m, g) && !slices.Contains(a.tokens.members, m)
}

// choose looks for an account. The account of the last lease, of the session and of the sticky
// choice go first; then the accounts with enough quota left, in the order of the pools; then those
// with low quota.
func (a *acquisition) choose() (*lease, searchResult) {
	p := a.pool
	if a.brief {
		m, g := a.last.member, a.last.group
		if a.eligible(m, g, false) {
			return a.lease(m, g, choiceReason{reason: whySame}), leaseFound
		}
		if a.backBriefly(m, g) {
			return nil, waitForOne
		}
	}
	if a.failed != nil {
		if l, result, ok := a.afterFault(); ok {
			return l, result
		}
	}
	bound, ok := p.boundTo(sessionKey{a.req.Session, a.models})
	ok = ok && a.allows(bound.member, bound.group)
	if ok && a.backBriefly(bound.member, bound.group) {
		return nil, waitForOne
	}
	a.overflow = ok && bound.member.onlyBusy(bound.group, a.req.Model)
	for _, low := range []bool{false, true} {
		if ok && a.eligible(bound.member, bound.group, low) && !a.overloaded(bound, low) {
			return a.lease(bound.member, bound.group, choiceReason{reason: whySession, chosen: true, low: low}), leaseFound
		}
		for _, g := range a.groups {
			if p.opts.Selection == Sticky && !low && g.current != nil && a.backBriefly(g.current, g) {
				return nil, waitForOne
			}
			if m, reason := a.pick(g, low); m != nil {
				return a.lease(m, g, choiceReason{reason: p.opts.Selection + ": " + reason, chosen: true, low: low}), leaseFound
			}
		}
	}
	return a.lastResort()
}

// onlyChoice returns the reason if the request allows one account only, and otherwise "".
func (a *acquisition) onlyChoice() string {
	if a.req.Email == "" {
		return ""
	}
	return "the configuration names it"
}

// pick chooses among the eligible accounts of a quota group by the selection strategy, and returns
// the reason; m is nil if there is none.
func (a *acquisition) pick(g *quotaGroup, low bool) (m *member, reason string) {
	if reason := a.onlyChoice(); reason != "" {
		return a.next(g, 0, low), reason
	}
	if a.pool.opts.Selection == Hybrid {
		return a.pickBest(g, low)
	}
	m = a.next(g, a.pool.first(g), low)
	switch from := g.current; {
	case m == nil:
		return nil, ""
	case a.pool.opts.Selection == RoundRobin:
		g.turn = m.index
		return m, "next in turn"
	case from == nil || from.index < 0:
		g.current = m
		return m, "first usable account"
	case m == from:
		return m, "same account as for the last call"
	case from.onlyBusy(g, a.req.Model): // the next call may find it free
		return m, "the current account is at its concurrency limit"
	default:
		g.current = m
		v := from.availability(g, a.req.Model)
		if v.until <= a.pool.now {
			return m, "moved from " + from.email + ", which is not usable"
		}
		until := a.pool.date(v.until).Format(time.DateTime)
		return m, fmt.Sprintf("moved from %s, which cools down until %s (%s)", from.email, until, v.kind)
	}
}

// next returns the first eligible account from a place in the list on, all around; nil if there is
// none.
func (a *acquisition) next(g *quotaGroup, from int, low bool) *member {
	members := a.pool.members
	for i := range members {
		if m := members[(from+i)%len(members)]; a.eligible(m, g, low) {
			return m
		}
	}
	return nil
}

// first returns the place of the account that sticky selection and round robin try first.
func (p *Pool) first(g *quotaGroup) int {
	if cur := g.current; p.opts.Selection == Sticky && cur != nil && cur.index >= 0 {
		return cur.index
	}
	return min(g.turn+1, len(p.members))
}

// pickBest chooses the account with the highest score. A call without a session stays with the
// current account unless another one is better by stickiness. A new session has no prompt
// cache to lose and goes to the best, which spreads sessions over accounts that are equally good.
func (a *acquisition) pickBest(g *quotaGroup, low bool) (best *member, reason string) {
	most := 0.0
	for _, m := range a.pool.members {
		if !a.eligible(m, g, low) {
			continue
		}
		if s := m.score(g); best == nil || s > most {
			best, most = m, s
		}
	}
	if best == nil {
		return nil, ""
	}
	if cur := g.current; a.req.Session == "" && cur != nil && a.eligible(cur, g, low) {
		if s := cur.score(g); s+stickiness >= most {
			best, most = cur, s
		}
	}
	g.current = best
	return best, fmt.Sprintf("highest score (%.0f)", most)
}

// overloaded reports whether a session is to leave its account because that has failed too often,
// or has made too many calls in a short time, and another one has not. An account is worth more
// than a prompt cache.
func (a *acquisition) overloaded(b binding, low bool) bool {
	p := a.pool
	return p.opts.Selection == Hybrid && !b.member.health.fit(p.now) &&
		slices.ContainsFunc(p.members, func(m *member) bool { return m.health.fit(p.now) && a.eligible(m, b.group, low) })
}

// backBriefly reports whether an account will be back so soon that the call should wait for it,
// although another one may be usable.
func (a *acquisition) backBriefly(m *member, g *quotaGroup) bool {
	c := &m.cooldowns[g.id]
	if !c.brief || c.until <= a.pool.now || c.until > a.deadline || m.busy() || !a.allows(m, g) {
		return false
	}
	v := m.availability(g, a.req.Model)
	return v.returns() && v.until == c.until && !v.low
}

// afterFault chooses for a call after a provider error: another account, or the same one after a
// pause. ok is false when the call has to be served like any other, which may mean to wait.
func (a *acquisition) afterFault() (l *lease, result searchResult, ok bool) {
	failed := a.failed
	for _, low := range []bool{false, true} {
		for _, g := range a.groups {
			if m := a.next(g, failed.index+1, low); m != nil && m != failed {
				reason := "provider error with " + failed.email + ": trying another account"
				return a.lease(m, g, choiceReason{reason: reason, instead: true, low: low}), leaseFound, true
			}
		}
	}
	if !a.again {
		return nil, noLease, true // it was refused, and a pause would change nothing
	}
	g := a.last.group
	if a.eligible(failed, g, true) || a.onlyFaulty(failed, g) {
		l := a.lease(failed, g, choiceReason{reason: whyAgain})
		l.pause = faultPause
		return l, leaseFound, true
	}
	return nil, noLease, false
}

func (a *acquisition) onlyFaulty(m *member, g *quotaGroup) bool {
	v := m.availability(g, a.req.Model)
	return v.faulty && !slices.Contains(a.tokens.members, m)
}

// lastResort decides about a call for which no account is eligible: it gets the account with the
// oldest provider error, or waits, or probes the account with the cooldown that has been in doubt
// for longest.
func (a *acquisition) lastResort() (*lease, searchResult) {
	var faulty, probe binding
	var faultyUntil, doubt instant
	now := a.pool.now
	for _, g := range a.groups {
		for _, m := range a.candidates() {
			v := m.availability(g, a.req.Model)
			if v.until <= now || m.busy() {
				continue
			}
			until := m.cooldowns[providerFaults].until
			if a.onlyFaulty(m, g) && (faulty.member == nil || until < faultyUntil) {
				faulty, faultyUntil = binding{m, g}, until
			}
			// An earlier pool is probed first.
			if v.doubt <= now && g.probedAt+probeEvery <= now && (probe.member == nil || probe.group == g && v.doubt < doubt) {
				probe, doubt = binding{m, g}, v.doubt
			}
		}
	}
	if faulty.member != nil {
		return a.lease(faulty.member, faulty.group, choiceReason{reason: whyFaulty}), leaseFound
	}
	if at, ok := a.earliest(); ok && at <= a.deadline && a.deadline > now {
		return nil, waitForAny
	}
	if probe.member == nil {
		return nil, noLease
	}
	probe.group.probedAt = now
	return a.lease(probe.member, probe.group, choiceReason{reason: whyProbe}), leaseFound
}

// earliest returns when the first account is back. A call for which a token could not be renewed
// does not wait for accounts without a token.
func (a *acquisition) earliest() (first instant, ok bool) {
	for _, g := range a.groups {
		for _, m := range a.candidates() {
			v := m.availability(g, a.req.Model)
			if a.tokens.err != nil && (v.kind == providererr.KindNoToken || slices.Contains(a.tokens.members, m)) {
				continue
			}
			if v.returns() && (!ok || v.until < first) {
				first, ok = v.until, true
			}
		}
	}
	return first, ok
}

// lease gives an account to the call.
func (a *acquisition) lease(m *member, g *quotaGroup, w choiceReason) *lease {
	p := a.pool
	m.leases++
	m.health.charge(p.now)
	if !a.overflow && w.reason != whyProbe && !w.instead && a.req.Email == "" {
		a.bind(binding{m, g})
	}
	w.only, w.waited = len(p.members) == 1, p.now-a.began
	return &lease{call: a, pool: p, member: m, source: m.source, group: g, why: w, began: p.now}
}

// faultPause is how long a call waits before it tries the same account once more, because there is
// no other.
const faultPause = 500 * time.Millisecond
