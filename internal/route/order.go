package route

import (
	"context"
	"time"

	"perigee/internal/adapt/models"
)

// listGrace is how long a call waits for further lists of models after one of them has its model.
const listGrace = 500 * time.Millisecond

// order sorts the upstreams of a model without a rule: first those with the model in their list,
// then those without a list, each in the order of the configuration. Those that list only other
// models are not asked, unless all do: providers do not list all their models.
//
// A call waits for lists only if an upstream was never asked for its list and the name is not in the
// table of models. Otherwise the last lists count, and old ones are renewed in the background.
func (r *Router) order(ctx context.Context, found *resolution) {
	if _, ok := r.rule(found.model); ok || found.upstream != "" || len(found.targets) < 2 {
		return
	}
	r.renewLists(ctx, found)
	var have, unknown, lack []Target
	for _, t := range found.targets {
		switch list := r.models.last(t.Name); {
		case !r.offers(t, found.model):
			lack = append(lack, t)
		case list.has(found.model):
			have = append(have, t)
		case len(list.models) == 0:
			unknown = append(unknown, t)
		default:
			lack = append(lack, t)
		}
	}
	if len(lack) < len(found.targets) {
		found.targets, found.unasked = append(have, unknown...), lack
	}
}

// renewLists asks for lists that are old, and waits for those that there never were if the name of
// the model is not in the table: until all have come, listGrace after one that has the model, or
// until modelsWait.
func (r *Router) renewLists(ctx context.Context, found *resolution) {
	_, known := models.Lookup(found.model)
	now, waiting := r.opts.Now(), 0
	lists := make(chan modelList, len(found.targets))
	for _, target := range found.targets {
		switch list := r.models.last(target.Name); {
		case list.until.IsZero() && len(list.models) == 0 && known: // not needed
		case list.until.IsZero() && len(list.models) == 0:
			waiting++
			go func() { lists <- r.listInTime(ctx, target) }()
		case !now.Before(list.until):
			go r.listInTime(ctx, target)
		}
	}
	var grace <-chan time.Time
	for range waiting {
		select {
		case list := <-lists:
			if grace == nil && list.has(found.model) {
				grace = time.After(listGrace)
			}
		case <-grace:
			return
		case <-ctx.Done():
			return
		}
	}
}

// listInTime is listOf with a limit of its own: the list is for all callers.
func (r *Router) listInTime(ctx context.Context, target Target) modelList {
	ctx, cancel := waitForLists(context.WithoutCancel(ctx))
	defer cancel()
	return r.listOf(ctx, target)
}
