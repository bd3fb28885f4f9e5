package route

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"perigee"
	"perigee/internal/adapt/models"
)

// Explain says which upstream would answer a call for a model now, and why the rest would not.
// check reports what is known of an upstream without a request: whether it is usable for a model,
// and why. No model is called; upstreams are asked for their lists of models, as far as these are
// not cached. An upstream that does not list its models in time is taken to have the model.
func (r *Router) Explain(ctx context.Context, asked string, check func(upstream, model string) perigee.RouteCandidate) (
	perigee.RouteExplanation, error) {
	found, err := r.resolve(asked)
	if err != nil {
		return perigee.RouteExplanation{}, err
	}
	e := explanation{router: r, check: check, RouteExplanation: perigee.RouteExplanation{Model: asked}}
	e.step("%s", origins(found))
	absent := e.add(ctx, found)
	if absent {
		for next := range r.replacements(ctx, found, &perigee.Origin{}) {
			e.step("no upstream has %s; %s takes its place", found.model, next.model)
			if !e.add(ctx, next) {
				break
			}
		}
	}
	e.addUnrouted(found)
	e.choose()
	return e.RouteExplanation, nil
}

// An explanation is being put together.
type explanation struct {
	router *Router
	check  func(upstream, model string) perigee.RouteCandidate
	// unlisted are the candidates whose upstream could not list its models just now, by their
	// place, with the reason.
	unlisted map[int]string
	perigee.RouteExplanation
}

func (e *explanation) step(format string, args ...any) {
	if line := fmt.Sprintf(format, args...); line != "" {
		e.Steps = append(e.Steps, line)
	}
}

// origins says how the name of a client led to the model; empty: it is the model.
func origins(found resolved) string {
	switch {
	case found.asked == found.model:
		return ""
	case found.aliased:
		return fmt.Sprintf("%s is an alias of %s", found.asked, found.model)
	case found.thinking == nil:
		return fmt.Sprintf("%s stands for %s", found.asked, found.model)
	case found.thinking.Budget != nil && *found.thinking.Budget == 0:
		return fmt.Sprintf("%s asks %s not to think", found.asked, found.model)
	}
	return fmt.Sprintf("%s asks %s for thinking", found.asked, found.model)
}

// add adds the upstreams of a model as candidates, and says whether none of them has it.
func (e *explanation) add(ctx context.Context, found resolved) (absent bool) {
	r := e.router
	if rule, ok := r.rule(found.model); ok {
		e.step("models.routes sends %s to %s", rule.Match, strings.Join(rule.To, ", "))
	}
	candidates := make([]perigee.RouteCandidate, len(found.targets))
	for i, target := range found.targets {
		candidates[i] = e.check(target.Name, found.model)
		candidates[i].Upstream, candidates[i].Name = target.Name, found.model
	}
	lists := make([]modelList, len(found.targets)) // after the checks: a list that fails may start a cooldown
	listing, cancel := context.WithTimeout(ctx, modelsWait)
	defer cancel()
	var wait sync.WaitGroup
	_, known := models.Lookup(found.model) // some of these are not listed by providers that have them
	for i, target := range found.targets {
		if candidates[i].Usable || !known {
			wait.Go(func() { lists[i] = r.listOf(listing, target) })
		}
	}
	wait.Wait()
	remembered := r.remembered(found, &perigee.Request{}) != nil
	absent = len(candidates) > 0
	for i := range candidates {
		c := &candidates[i]
		missing := remembered || lists[i].lacks(found.model)
		absent = absent && missing
		switch {
		case missing:
			c.Usable, c.Reason, c.Until = false, fmt.Sprintf("it has no model %s", perigee.Clip(found.model, maxNamed)), time.Time{}
		case !c.Usable:
		case lists[i].err != nil:
			e.judge(c, lists[i].err)
		}
		e.Candidates = append(e.Candidates, *c)
	}
	return absent
}

// judge applies that an upstream could not list its models. A provider that refuses the credentials
// refuses the call as well. Of one that cannot be reached that is likely, so choose prefers an
// upstream that has listed the model.
func (e *explanation) judge(c *perigee.RouteCandidate, err error) {
	why := err.Error()
	switch class := perigee.AsError(err).Class; {
	case class == perigee.ClassUnauthenticated || class == perigee.ClassForbidden || class == perigee.ClassVerification ||
		class == perigee.ClassIdentity:
		c.Usable, c.Reason = false, why
	case errors.Is(err, context.DeadlineExceeded):
		c.Reason = join(c.Reason, "whether it has this model could not be checked in time")
	default:
		if e.unlisted == nil {
			e.unlisted = map[int]string{}
		}
		e.unlisted[len(e.Candidates)] = why
		c.Reason = join(c.Reason, "whether it has this model could not be checked: "+why)
	}
}

func join(reason, more string) string {
	if reason == "" {
		return more
	}
	return reason + "; " + more
}

// addUnrouted adds the upstreams that a call does not reach.
func (e *explanation) addUnrouted(found resolved) {
	for _, target := range e.router.opts.Targets {
		if slices.ContainsFunc(e.Candidates, func(c perigee.RouteCandidate) bool { return c.Upstream == target.Name }) {
			continue
		}
		reason := "it is not asked for this model"
		if rule, ok := e.router.rule(found.model); ok {
			reason = fmt.Sprintf("models.routes sends %s to %s", rule.Match, strings.Join(rule.To, ", "))
		}
		e.Candidates = append(e.Candidates, perigee.RouteCandidate{Upstream: target.Name, Name: found.model, Reason: reason})
	}
}

// choose names the first candidate that is usable. One that could not list its models counts only
// if no other is certain.
func (e *explanation) choose() {
	certain := slices.IndexFunc(e.Candidates, func(c perigee.RouteCandidate) bool { return c.Usable })
	for i, c := range e.Candidates {
		if _, unsure := e.unlisted[i]; c.Usable && !unsure {
			certain = i
			break
		}
	}
	if certain < 0 {
		return
	}
	if _, unsure := e.unlisted[certain]; !unsure {
		for i, why := range e.unlisted {
			e.Candidates[i].Usable, e.Candidates[i].Reason = false, why
		}
	}
	e.Upstream, e.Name = e.Candidates[certain].Upstream, e.Candidates[certain].Name
}
