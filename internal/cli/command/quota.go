package command

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"perigee"
	"perigee/internal/cli"
	"perigee/internal/lib/terminal"
)

// PrintQuota prints a table for each account.
func PrintQuota(env *cli.Env, rows []perigee.QuotaRow, eachModel bool) error {
	if env.Structured() {
		return cli.List(env, rows, nil, nil)
	}
	slices.SortStableFunc(rows, func(a, b perigee.QuotaRow) int {
		return cmp.Or(cmp.Compare(a.Account, b.Account), cmp.Compare(a.Upstream, b.Upstream),
			cmp.Compare(a.Model, b.Model), cmp.Compare(a.Pool, b.Pool))
	})
	several := slices.ContainsFunc(rows, func(row perigee.QuotaRow) bool { return row.Upstream != rows[0].Upstream })
	for i, end := 0, 0; i < len(rows); i = end {
		first := rows[i]
		for end < len(rows) && rows[end].Account == first.Account && rows[end].Upstream == first.Upstream {
			end++
		}
		title := first.Account
		if several {
			title += " at " + first.Upstream
		}
		if i > 0 {
			fmt.Fprintln(env.Stdout)
		}
		fmt.Fprintln(env.Stdout, terminal.Printable(title))
		account := rows[i:end]
		if !eachModel {
			account = byGroup(account)
		}
		if err := accountQuota(env, account); err != nil {
			return err
		}
	}
	return nil
}

// byGroup makes one row of the models that share a quota: the provider repeats it for each of them.
func byGroup(rows []perigee.QuotaRow) (grouped []perigee.QuotaRow) {
	quotaOf := func(r perigee.QuotaRow) string {
		return fmt.Sprintf("%q %q %v %v %d %d", r.Group, r.Pool, r.Windows, r.Remaining, r.ResetsAt.Unix(), r.RunsOutAt.Unix())
	}
	models, quotas := map[string]int{}, map[[2]string]int{}
	for _, r := range rows {
		if models[quotaOf(r)]++; models[quotaOf(r)] == 1 {
			grouped = append(grouped, r)
			quotas[[2]string{r.Group, r.Pool}]++
		}
	}
	for i, r := range grouped {
		switch n := models[quotaOf(r)]; {
		case n == 1:
		case quotas[[2]string{r.Group, r.Pool}] == 1:
			grouped[i].Model = fmt.Sprintf("%s (%d models)", r.Group, n)
		default:
			grouped[i].Model += fmt.Sprintf(" and %d more", n-1)
		}
	}
	return grouped
}

// clock returns a time of today or, with the day of the week, of another day, in the zone of this
// machine.
func clock(t, now time.Time) string {
	zone := Zone()
	if t, now = t.In(zone), now.In(zone); t.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return t.Format("15:04")
	}
	return t.Format("Mon 15:04")
}

func accountQuota(env *cli.Env, rows []perigee.QuotaRow) error {
	now := time.Now()
	ahead := func(t time.Time) string {
		if t.IsZero() {
			return "-"
		}
		return "in " + terminal.Span(t.Sub(now))
	}
	return cli.List(env, rows, []string{"  MODELS", "POOL", "LEFT", "RESETS", "WINDOWS", "RUNS OUT"}, func(r perigee.QuotaRow) []any {
		var windows []string
		for _, w := range r.Windows {
			windows = append(windows, fmt.Sprintf("%s %s (%s)", w.Window, terminal.Percent(w.Remaining), ahead(w.ResetsAt)))
		}
		runsOut := "-"
		if r.Remaining <= 0 {
			runsOut = "used up"
		} else if !r.RunsOutAt.IsZero() {
			runsOut = fmt.Sprintf("%s (%s)", clock(r.RunsOutAt, now), ahead(r.RunsOutAt))
		}
		return []any{"  " + r.Model, r.Pool, terminal.Percent(r.Remaining), ahead(r.ResetsAt), OrDash(strings.Join(windows, ", ")), runsOut}
	})
}
