package daemon

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"perigee"
	"perigee/internal/config"
	"perigee/internal/models"
	"perigee/internal/names"
)

// ExplainAccounts says which account would be taken for a model now, and why not the others. A model that nobody has is
// refused as a call for it would be.
func (c control) ExplainAccounts(ctx context.Context, model string) ([]perigee.ChoiceRow, error) {
	p := c.house.current.Load()
	if len(c.rosters()) == 0 {
		return nil, noRoster()
	}
	asked := realModel(p.models, model)
	var rows []perigee.ChoiceRow
	taken := false
	for _, r := range c.rosters() {
		elsewhere := sentElsewhere(p.models, asked, r.upstream)
		for _, reason := range r.pool.Explain(asked) {
			row := perigee.ChoiceRow{Email: reason.Email, Upstream: r.upstream, Pool: reason.Pool, Usable: reason.Usable, Why: reason.Why}
			if elsewhere != "" {
				row.Usable, row.Why = false, elsewhere
			}
			if !reason.Until.IsZero() && elsewhere == "" {
				row.Until = reason.Until.UTC().Truncate(time.Second)
			}
			// Upstreams are asked in order, so an account of the second is taken only when the first has none.
			row.Chosen = reason.Chosen && row.Usable && !taken
			taken = taken || row.Chosen
			rows = append(rows, row)
		}
	}
	// Last, as asking may cost an account a moment's rest, which is not what somebody wants explained.
	unchecked, err := p.lacks(ctx, asked)
	if err != nil {
		return nil, err
	}
	for i := range rows {
		if unchecked && rows[i].Usable {
			rows[i].Why += "; whether anybody has this model could not be checked"
		}
	}
	return rows, nil
}

// modelsTime is how long upstreams may take to say which models they have.
const modelsTime = 5 * time.Second

// lacks returns the error about a model that none of the upstreams has that it would be asked of. They are asked only about
// names that are in no table, and who cannot say what it has is given the benefit of the doubt.
func (p *plan) lacks(ctx context.Context, model string) (unchecked bool, err error) {
	if _, ok := models.Lookup(model); ok || model == "" {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, modelsTime)
	defer cancel()
	var asked []string
	known := slices.Sorted(maps.Keys(p.models.Aliases))
	for _, room := range p.rooms {
		if sentElsewhere(p.models, model, room.config.Name) != "" {
			continue
		}
		asked = append(asked, room.config.Name)
		lister, ok := room.upstream.(perigee.ModelLister)
		if !ok {
			unchecked = true
			continue
		}
		list, err := lister.Models(ctx)
		unchecked = unchecked || err != nil
		for _, m := range list {
			known = append(known, m.ID)
		}
	}
	if unchecked || slices.Contains(known, model) {
		return !slices.Contains(known, model), nil
	}
	e := perigee.Errorf(perigee.ClassNotFound, "no model %q at %s", model, strings.Join(asked, ", "))
	if near := names.Nearest(model, known, 3); len(near) > 0 {
		return false, e.WithNext("the nearest names are %s", strings.Join(near, ", "))
	}
	return false, e.WithNext("perigee models lists what there is")
}

// realModel is what a client's name for a model stands for: aliases are followed, and what the name says about thinking is
// taken off.
func realModel(cfg config.Models, name string) string {
	known := func(id string) bool {
		_, alias := cfg.Aliases[id]
		_, listed := models.Lookup(id)
		return alias || listed
	}
	for range 2*len(cfg.Aliases) + 2 { // each alias once, and a suffix behind each
		if target, ok := cfg.Aliases[name]; ok {
			name = target
		} else if base, thinking := models.Split(name, known); thinking != nil {
			name = base
		} else {
			break
		}
	}
	return name
}

// sentElsewhere says so when the routes do not send a model to an upstream.
func sentElsewhere(cfg config.Models, model, upstream string) string {
	i := slices.IndexFunc(cfg.Routes, func(r config.Route) bool { return names.Match(r.Match, model) })
	if model == "" || i < 0 || slices.Contains(cfg.Routes[i].To, upstream) {
		return ""
	}
	return "models.routes sends this model to " + strings.Join(cfg.Routes[i].To, ", ")
}
