package pool

import (
	"cmp"
	"slices"
	"time"

	"perigee"
	"perigee/internal/adapt/providererr"
)

// A Shortage is wrapped by the error of a Next that has no account. Kind is the cause that the
// whole error reports: the one that ends first, or else the one that is easiest to remove.
type Shortage struct{ Kind providererr.Kind }

func (s *Shortage) Error() string { return "no account can be leased (" + string(s.Kind) + ")" }

// Unwrap makes it a perigee.ErrNotAsked.
func (s *Shortage) Unwrap() error { return perigee.ErrNotAsked }

// refusal returns the error of a call that gets no account: the causes, when the first account is
// back, and a hint. It names no account, because it goes to the client.
func (a *acquisition) refusal() error {
	p, now, members := a.pool, a.pool.now, a.candidates()
	if len(members) == 0 {
		return perigee.Errorf(perigee.ClassUnauthenticated, "no account is signed in").WithHint("run `perigee login`")
	}
	if p.breaker.blocks(a.models != groupControl, now) && slices.ContainsFunc(members, (*member).inUse) {
		return p.breakerRefusal(a.req.Model)
	}
	var tallies tallies
	for _, m := range members {
		tallies.add(a.waitsFor(m))
	}
	decisive := tallies.decisive()
	e := &perigee.Error{Class: cmp.Or(causeOf(decisive.kind).class, perigee.ClassUnavailable), Message: tallies.message(a.req.Model, now),
		Model: a.req.Model, Cause: &Shortage{decisive.kind}}
	if decisive.first == 0 {
		e.Hint = causeOf(decisive.kind).remedy
		if decisive.kind != kindDisabled && slices.ContainsFunc(tallies, func(t tally) bool { return t.kind == kindDisabled }) {
			e.Hint += "; or bring back one that is disabled with `perigee account enable`"
		}
		return e
	}
	e.Retry = max(decisive.first-now, time.Second)
	e.Hint = providererr.WaitFor(e.Retry, p.opts.Now()) + ", or add another account with `perigee login`"
	if a.req.Model != "" {
		e.Hint += "; `perigee account explain " + a.req.Model + "` says more"
	}
	return e
}

// Refusal returns the error of a call if no account is in use and none will be unless the owner
// acts; it returns nil if one is in use, or if there are no accounts. It leases nothing, and
// changes nothing.
func (p *Pool) Refusal(req Request) error {
	a := p.acquire(req)
	p.lock()
	defer p.unlock()
	members := a.candidates()
	if len(members) == 0 || len(a.groups) == 0 || slices.ContainsFunc(members, (*member).inUse) {
		return nil
	}
	return a.refusal()
}

// waitsFor returns the tally of one account. In several quota groups the cause that ends first
// counts.
func (a *acquisition) waitsFor(m *member) tally {
	t := tally{count: 1}
	for _, g := range a.groups {
		v := m.availability(g, a.req.Model)
		if v.until == 0 {
			return tally{kind: v.kind, count: 1}
		}
		kind, at, probed := v.kind, v.until, false
		if v.free {
			kind = kindBusy // with the tokens of this call
		} else if probe := max(v.doubt, g.probedAt+probeEvery); at > a.pool.now && !v.fromProvider && probe <= at {
			at, probed = probe, true
		}
		switch {
		case v.missing && t.kind == "":
			t.kind = kind
		case !v.missing && (t.first == 0 || at < t.first):
			t.kind, t.first, t.probed = kind, at, probed
		}
	}
	return t
}
