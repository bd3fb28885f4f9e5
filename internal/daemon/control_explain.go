package daemon

import (
	"context"
	"slices"
	"strings"
	"time"

	"perigee"
	"perigee/internal/config"
	"perigee/internal/models"
	"perigee/internal/names"
)

// ExplainAccounts says which account would be taken for a model now, and why not the others.
func (c control) ExplainAccounts(_ context.Context, model string) ([]perigee.ChoiceRow, error) {
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
	return rows, nil
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
