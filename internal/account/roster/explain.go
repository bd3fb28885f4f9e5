package roster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"perigee"
	"perigee/internal/account/pool"
)

// ExplainAccounts reports which account would be used for a model now, and why the other accounts
// would not. A model that no upstream has is refused as a call for it would be.
func (c Control) ExplainAccounts(ctx context.Context, model string) ([]perigee.ChoiceRow, error) {
	router := c.Router()
	if len(c.Rosters()) == 0 {
		return nil, noRoster()
	}
	resolved := "" // any model
	if model != "" {
		resolved = router.Model(model)
	}
	var rows []perigee.ChoiceRow
	taken := false
	for _, r := range c.Rosters() {
		for _, row := range r.explainFor(router, model, resolved) {
			// Upstreams are tried in order, so an account of the second is used only when the first
			// has none.
			row.Chosen = row.Chosen && row.Usable && !taken
			taken = taken || row.Chosen
			rows = append(rows, row)
		}
	}
	// Last, because the question may start a cooldown, which would change the explanation.
	unsure := false
	if model != "" {
		var err error
		if unsure, err = router.Missing(ctx, model); err != nil {
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

// Explain reports for each account that a request can use whether it would be leased now, in the
// order in which they would be chosen.
func (r *Roster) Explain(req pool.Request) []perigee.ChoiceRow {
	rows := r.pool.Explain(req)
	for i := range rows {
		rows[i].Upstream, rows[i].Until = r.upstream, rows[i].Until.UTC().Truncate(time.Second)
	}
	return rows
}

// explainFor reports for each account whether one of the upstreams for a client's name of a model
// would lease it, in the order in which they would be chosen.
func (r *Roster) explainFor(router Router, name, model string) (rows []perigee.ChoiceRow) {
	all := pool.Request{Model: model}
	if model == "" {
		return r.Explain(all)
	}
	asked, used := router.Upstreams(name), false
	only, pool := "", "" // why the other accounts are not used, and their pool
	for _, name := range asked {
		if router.AccountsOf(name) != r.upstream {
			continue
		}
		used = true
		req := router.Within(name, all)
		if req.Email != "" {
			only, pool = fmt.Sprintf("%s uses only %s", name, req.Email), req.Pool
		}
		for _, row := range r.Explain(req) {
			if !slices.ContainsFunc(rows, func(x perigee.ChoiceRow) bool { return x.Email == row.Email && x.Pool == row.Pool }) {
				rows = append(rows, row)
			}
		}
	}
	if !used {
		only = "models.routes sends this model to " + strings.Join(asked, ", ")
	}
	// An upstream may have models that the one before it does not have.
	slices.SortStableFunc(rows, func(a, b perigee.ChoiceRow) int {
		switch {
		case a.Usable == b.Usable:
			return 0
		case a.Usable:
			return -1
		}
		return 1
	})
	if only == "" {
		return rows
	}
	all.Pool = pool
	for _, row := range r.Explain(all) {
		if !used || !slices.ContainsFunc(rows, func(x perigee.ChoiceRow) bool { return x.Email == row.Email }) {
			row.Chosen, row.Usable, row.Why, row.Until = false, false, only, time.Time{}
			rows = append(rows, row)
		}
	}
	return rows
}
