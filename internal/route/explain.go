package route

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"perigee"
	"perigee/internal/adapt/models"
)

// Explain returns which upstream would answer a call for a model now, and why the remaining ones
// would not. check reports, without a request, whether an upstream is usable for a model, and why.
// No model is called; upstreams are asked for their lists of models, as far as these are not
// cached. An upstream that does not list its models in time is taken to have the model.
func (r *Router) Explain(ctx context.Context, q perigee.RouteQuestion, check func(upstream, model string) perigee.RouteCandidate) (
	perigee.RouteExplanation, error) {
	var open []*Rule
	found, err := r.resolveListed(ctx, q.Model, supposed(&q, &open))
	if err != nil {
		return perigee.RouteExplanation{}, err
	}
	e := explanation{router: r, check: check, RouteExplanation: perigee.RouteExplanation{Model: q.Model}}
	for _, rule := range open {
		e.step("%s; whether it applies depends on the request", rule)
		e.Conditions = append(e.Conditions, rule.condition())
	}
	e.step("%s", origins(found))
	r.order(ctx, &found)
	found.targets = slices.Concat(found.targets, found.unasked)
	absent := e.add(ctx, found)
	if absent {
		for next := range r.replacements(ctx, found, &perigee.Origin{}) {
			e.step("no upstream has %s; %s takes its place", found.model, next.model)
			next.targets = slices.Concat(next.targets, next.unasked)
			if !e.add(ctx, next) {
				break
			}
		}
	}
	e.addUnrouted(found)
	e.choose()
	return e.RouteExplanation, nil
}

// An explanation is a RouteExplanation under construction.
type explanation struct {
	router *Router
	check  func(upstream, model string) perigee.RouteCandidate
	// unlisted has the reasons why upstreams could not list their models, by index of the
	// candidate.
	unlisted map[int]string
	perigee.RouteExplanation
}

func (e *explanation) step(format string, args ...any) {
	if line := fmt.Sprintf(format, args...); line != "" {
		e.Steps = append(e.Steps, line)
	}
}

// origins describes how a client's name led to the model. It is empty if the name is the model's.
func origins(found resolution) string {
	switch {
	case found.replacedBy != nil:
		return found.replacedBy.String()
	case found.asked == found.model:
		return ""
	case found.upstream != "" && !found.aliased:
		return fmt.Sprintf("%s is %s at %s", found.asked, found.model, found.upstream)
	case found.aliased:
		return fmt.Sprintf("%s is an alias of %s", found.asked, found.model)
	case found.thinking == nil:
		return fmt.Sprintf("%s stands for %s", found.asked, found.model)
	case found.thinking.Budget != nil && *found.thinking.Budget == 0:
		return fmt.Sprintf("%s asks %s not to think", found.asked, found.model)
	}
	return fmt.Sprintf("%s asks %s for thinking", found.asked, found.model)
}

// add adds the upstreams of a model as candidates, and reports whether none of them has it.
func (e *explanation) add(ctx context.Context, found resolution) (absent bool) {
	r := e.router
	if rule := found.rule; rule != nil && rule != found.replacedBy {
		e.step("%s", rule)
	}
	candidates := make([]perigee.RouteCandidate, len(found.targets))
	for i, target := range found.targets {
		candidates[i] = e.check(target.Name, found.model)
		candidates[i].Upstream, candidates[i].Name = target.Name, found.model
	}
	// The lists come after the checks, because a failed list may start a cooldown.
	lists := make([]modelList, len(found.targets))
	var wait sync.WaitGroup
	_, known := models.Lookup(found.model) // providers do not list all models of the table
	for i, target := range found.targets {
		if candidates[i].Usable || !known {
			wait.Go(func() { lists[i] = r.listOf(ctx, target, modelsWait) })
		}
	}
	wait.Wait()
	remembered := r.recentlyMissing(found, &perigee.Request{}) != nil
	absent = len(candidates) > 0
	for i := range candidates {
		c := &candidates[i]
		offered := r.offers(c.Upstream, found.model)
		missing := remembered || !offered || lists[i].lacks(found.model)
		absent = absent && missing
		switch {
		case !offered:
			c.Usable, c.Reason, c.Until = false, fmt.Sprintf("models of %s in the configuration leaves this model out", c.Upstream), time.Time{}
		case missing:
			c.Usable, c.Reason, c.Until = false, fmt.Sprintf("it has no model %s", perigee.Clip(found.model, maxNamed)), time.Time{}
		case !c.Usable:
		case lists[i].err != nil:
			e.applyListError(c, lists[i].err)
		}
		e.Candidates = append(e.Candidates, *c)
	}
	return absent
}

// applyListError updates a candidate that could not list its models. A provider that refuses the
// credentials also refuses the call. A provider that cannot be reached is likely to fail, so choose
// prefers an upstream that has listed the model.
func (e *explanation) applyListError(c *perigee.RouteCandidate, err error) {
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

// addUnrouted adds the upstreams that calls are not routed to.
func (e *explanation) addUnrouted(found resolution) {
	for _, target := range e.router.opts.Targets {
		if slices.ContainsFunc(e.Candidates, func(c perigee.RouteCandidate) bool { return c.Upstream == target.Name }) {
			continue
		}
		reason := "it is not asked for this model"
		if found.upstream != "" {
			reason = fmt.Sprintf("the name is of a model of %s", found.upstream)
		} else if found.rule != nil {
			reason = found.rule.String()
		}
		e.Candidates = append(e.Candidates, perigee.RouteCandidate{Upstream: target.Name, Name: found.model, Reason: reason})
	}
}

// choose selects the first usable candidate. A candidate that could not list its models is selected
// only if there is no other.
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
