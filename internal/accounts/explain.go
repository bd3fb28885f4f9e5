package accounts

import (
	"context"
	"slices"
	"strings"
	"time"

	"perigee"
	"perigee/internal/account"
)

// ExplainAccounts says which account would be taken for a model now, and why the other accounts would not. A model that no upstream has is
// refused as a call for it would be.
func (c Control) ExplainAccounts(ctx context.Context, model string) ([]perigee.ChoiceRow, error) {
	router := c.Router()
	if len(c.Rosters()) == 0 {
		return nil, noRoster()
	}
	asked := model // empty: no matter which
	if asked != "" {
		asked = router.Model(asked)
	}
	var rows []perigee.ChoiceRow
	taken := false
	for _, r := range c.Rosters() {
		elsewhere := sentElsewhere(router, asked, r.upstream)
		own := asked == "" || slices.Contains(router.Upstreams(asked), r.upstream)
		for _, row := range r.Explain(asked) {
			if row.Pool == account.PoolCLI && elsewhere == "" && !own {
				continue // upstreams that use accounts of another one do not use this pool
			}
			if elsewhere != "" {
				row.Usable, row.Why, row.Until = false, elsewhere, time.Time{}
			}
			// Upstreams are asked in order, so an account of the second is taken only when the first has none.
			row.Chosen = row.Chosen && row.Usable && !taken
			taken = taken || row.Chosen
			rows = append(rows, row)
		}
	}
	// Last, because the question may start a cooldown, which would change the explanation.
	unsure := false
	if asked != "" {
		var err error
		if unsure, err = router.Missing(ctx, asked); err != nil {
			return nil, err
		}
	}
	for i := range rows {
		if unsure && rows[i].Usable {
			rows[i].Why += "; whether an account has this model could not be checked"
		}
	}
	return rows, nil
}

// Explain says for each account whether it would be taken for a model now, in the order in which they would be chosen.
func (r *Roster) Explain(model string) []perigee.ChoiceRow {
	rows := r.pool.Explain(model)
	for i := range rows {
		rows[i].Upstream, rows[i].Until = r.upstream, rows[i].Until.UTC().Truncate(time.Second)
	}
	return rows
}

// sentElsewhere says so when the routes do not send a model to an upstream, nor to one that uses its accounts.
func sentElsewhere(router Router, model, upstream string) string {
	if model == "" {
		return ""
	}
	asked := router.Upstreams(model)
	if slices.ContainsFunc(asked, func(name string) bool { return router.AccountsOf(name) == upstream }) {
		return ""
	}
	return "models.routes sends this model to " + strings.Join(asked, ", ")
}
