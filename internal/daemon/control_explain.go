package daemon

import (
	"context"
	"slices"
	"strings"
	"time"

	"perigee"
)

// ExplainAccounts says which account would be taken for a model now, and why not the others. A model that nobody has is
// refused as a call for it would be.
func (c control) ExplainAccounts(ctx context.Context, model string) ([]perigee.ChoiceRow, error) {
	p := c.house.current.Load()
	if len(c.rosters()) == 0 {
		return nil, noRoster()
	}
	asked := model // empty: no matter which
	if asked != "" {
		asked = p.router.Model(asked)
	}
	var rows []perigee.ChoiceRow
	taken := false
	for _, r := range c.rosters() {
		elsewhere := p.sentElsewhere(asked, r.upstream)
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
	unsure := false
	if asked != "" {
		var err error
		if unsure, err = p.router.Missing(ctx, asked); err != nil {
			return nil, err
		}
	}
	for i := range rows {
		if unsure && rows[i].Usable {
			rows[i].Why += "; whether anybody has this model could not be checked"
		}
	}
	return rows, nil
}

// sentElsewhere says so when the routes do not send a model to an upstream.
func (p *plan) sentElsewhere(model, upstream string) string {
	if model == "" {
		return ""
	}
	asked := p.router.Upstreams(model)
	if slices.Contains(asked, upstream) {
		return ""
	}
	return "models.routes sends this model to " + strings.Join(asked, ", ")
}
