package route

import (
	"context"
	"slices"
	"time"

	"perigee"
	"perigee/internal/adapt/models"
)

// listGrace is how long a call waits for a list of models after it was requested, if another
// upstream has the model or the model is in the table.
const listGrace = 500 * time.Millisecond

// order sorts the upstreams of a model without a rule: first those with the model in their list,
// then those without a list, each in the order of the configuration. Those that list only other
// models are not asked, unless all do: providers do not list all their models. An upstream that has
// no models of its own is taken to have a model of the table until its list comes.
//
// An upstream that does not answer is not asked for a model that it was never known to have, if there
// is another one; nor is one that fails, if a fallback can answer.
//
// A call waits for lists only if an upstream was never asked for its list, and only as long as the
// list matters. Otherwise the last lists count, and old ones are renewed in the background.
func (r *Router) order(ctx context.Context, found *resolution) {
	if found.rule != nil || found.upstream != "" || len(found.targets) < 2 {
		return
	}
	needed := slices.ContainsFunc(found.targets, func(t Target) bool { return !r.presumes(t, found.model) })
	r.awaitLists(ctx, found.targets, needed, func() (exists, certain bool) { return r.first(found) })
	var sorted [lacking + 1][]Target
	for _, t := range found.targets {
		s := r.listing(t, found.model)
		sorted[s] = append(sorted[s], t)
	}
	asked := slices.Concat(sorted[listed], sorted[presumed], sorted[unlisted])
	left := [][]Target{sorted[hanging], sorted[lacking]}
	if r.opts.Fallback == "" {
		asked = append(asked, sorted[failing]...)
	} else {
		left = append(left, sorted[failing])
	}
	if len(asked) == 0 && len(sorted[lacking]) < len(found.targets) {
		asked, left[1] = sorted[lacking], nil
	}
	if len(asked) > 0 {
		found.targets, found.unasked = asked, slices.Concat(left...)
	}
}

// A listing is what is known about an upstream and a model, in the order in which upstreams are
// asked.
type listing int

const (
	listed   listing = iota // the model is in its list
	presumed                // it has no list, and the model is in the table
	unlisted                // it has no list
	failing                 // it has no list, because it cannot be reached or refuses the key
	hanging                 // it has no list, because it does not answer
	lacking                 // the configuration or its list leaves the model out
)

// listing returns what is known about an upstream and a model.
func (r *Router) listing(t Target, model string) listing {
	switch list := r.models.last(t.Name); {
	case !r.offers(t.Name, model):
		return lacking
	case list.has(model):
		return listed
	case len(list.models) > 0:
		return lacking
	case r.presumes(t, model):
		return presumed
	case r.models.waits(t.Name):
		return hanging
	case list.refused():
		return failing
	}
	return unlisted
}

// presumes reports whether an upstream is taken to have a model that it has not listed.
func (r *Router) presumes(t Target, model string) bool {
	_, known := models.Lookup(model)
	return known && !r.opts.Own[t.Name]
}

// awaitLists requests lists that are old, and waits for those that there never were, or for the names
// in them, until known reports
// that the answer is certain, for listGrace if there is an answer, and for modelsWait otherwise. If
// the lists are not needed, none is requested for the first time.
func (r *Router) awaitLists(ctx context.Context, targets []Target, needed bool, known func() (exists, certain bool)) {
	arrived := make(chan struct{}, len(targets))
	waiting, newest := 0, time.Time{}
	for _, target := range targets {
		lister, ok := target.Upstream.(perigee.ModelLister)
		never := r.models.last(target.Name).never()
		if !ok || never && !needed {
			continue
		}
		_, request, _ := r.requestList(target.Name, lister)
		if request == nil || !never {
			continue
		}
		waiting++
		if request.began.After(newest) {
			newest = request.began
		}
		go func() {
			select {
			case <-request.named:
				arrived <- struct{}{}
			case <-ctx.Done():
			}
		}()
	}
	for waiting > 0 {
		exists, certain := known()
		if certain {
			return
		}
		limit := modelsWait
		if exists {
			limit = listGrace
		}
		select {
		case <-arrived:
			waiting--
		case <-time.After(time.Until(newest.Add(limit))):
			return
		case <-ctx.Done():
			return
		}
	}
}

// first reports whether an upstream has a model or is presumed to have it, and whether it is certain
// that no upstream before that one has it.
func (r *Router) first(found *resolution) (exists, certain bool) {
	certain = true
	for _, t := range found.targets {
		switch r.listing(t, found.model) {
		case listed, presumed:
			return true, certain
		case unlisted, failing, hanging:
			_, lists := t.Upstream.(perigee.ModelLister)
			certain = certain && !(lists && r.models.last(t.Name).never())
		}
	}
	return false, certain
}
