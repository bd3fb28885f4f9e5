package gateway

import (
	"context"
	"fmt"
	"slices"
	"time"

	"perigee"
	"perigee/internal/account/pool"
	"perigee/internal/account/roster"
)

// A cooler reports why a call for a model would be refused: all its API keys have a cooldown until
// a time; empty if it would not be.
type cooler interface {
	Resting(model string) (why string, until time.Time)
}

// KeyProblems returns the reasons why API keys of the upstreams in force cannot be used, as far as
// calls have shown them.
func (g *Gateway) KeyProblems() (list []perigee.KeyProblem) {
	for _, e := range g.Entries() {
		if u, ok := e.Upstream.(interface{ KeyProblems() []perigee.KeyProblem }); ok {
			list = append(list, u.KeyProblems()...)
		}
	}
	return list
}

// Explain reports which upstream would answer a call now, and why the other upstreams would not. It
// makes no call.
func (g *Gateway) Explain(ctx context.Context, q perigee.RouteQuestion) (perigee.RouteExplanation, error) {
	r, release := g.acquire()
	defer release()
	found, err := r.router.Explain(ctx, q, func(upstream, model string) perigee.RouteCandidate {
		if e := r.entry(upstream); e != nil {
			return e.candidate(model, r.rosterOf(e))
		}
		return perigee.RouteCandidate{Reason: "it is not configured"}
	})
	if e := r.entry(found.Upstream); e != nil {
		found.Local = e.Config.IsLocal()
	}
	return found, err
}

// candidate reports whether the upstream can answer calls for a model with the accounts that it
// leases, as far as that is known without a request. roster is nil if it leases none.
func (e *Entry) candidate(model string, roster *roster.Roster) perigee.RouteCandidate {
	req := e.within(pool.Request{Model: model})
	var rows []perigee.ChoiceRow
	if roster != nil {
		rows = roster.Explain(req)
	}
	if u, ok := e.Upstream.(selfChecker); ok && u.Unusable() != "" && (roster == nil || len(rows) > 0 && rows[0].Chosen) {
		return perigee.RouteCandidate{Reason: u.Unusable()}
	}
	if u, ok := e.Upstream.(cooler); ok {
		if why, until := u.Resting(model); why != "" {
			return perigee.RouteCandidate{Reason: why, Until: until.UTC().Truncate(time.Second)}
		}
	}
	if roster == nil {
		return perigee.RouteCandidate{Usable: true}
	}
	if len(rows) == 0 {
		return perigee.RouteCandidate{Reason: noAccount(roster, req)}
	}
	first := rows[0] // the chosen one, or else the one that is usable first
	c := perigee.RouteCandidate{Usable: first.Chosen, Reason: fmt.Sprintf("%s: %s", first.Email, first.Why)}
	if !first.Chosen {
		c.Until = first.Until
	}
	return c
}

// noAccount returns why a roster has no account for a request.
func noAccount(roster *roster.Roster, req pool.Request) string {
	name, signIns := roster.Upstream(), roster.SignIns()
	switch {
	case len(signIns) == 0:
		return fmt.Sprintf("no account is signed in; run perigee login --upstream %s", name)
	case req.Email != "" && !slices.ContainsFunc(signIns, func(s perigee.SignIn) bool { return s.Email == req.Email }):
		return fmt.Sprintf("%[1]s has no account %[2]s; run perigee login --upstream %[1]s --email %[2]s", name, req.Email)
	}
	return fmt.Sprintf("no pool of %[1]s has this model; check pools of %[1]s in the configuration", name)
}
