package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"perigee"
	"perigee/internal/config"
	"perigee/internal/names"
)

var quotaCommand = command{
	name:    "quota",
	summary: "show what the accounts have left",
	run:     quota,
	usage: `  perigee quota
  perigee quota --account 'ada@*' --model 'claude-*'
  perigee quota --json

Asks the provider what each account has left of each model, which costs no tokens. The provider counts in several windows
and refuses calls when one of them is used up; LEFT is the scarcest. RUNS OUT is when that will be if things go on as they
did since the window began. Works with and without a running daemon.

  --account EMAIL  only these accounts; * stands for any characters, ? for one
  --model MODEL    only these models, likewise
  --upstream NAME  only the accounts of this upstream
  --json           a JSON array: account, model, remaining (0 to 1), resets_at, and more
  --config FILE    the configuration
`,
}

// A quotaFilter says which rows somebody wants to see. What is empty lets everything through.
type quotaFilter struct{ account, model, upstream string }

func (f quotaFilter) lets(row perigee.QuotaRow) bool {
	fits := func(pattern, name string) bool {
		return pattern == "" || names.Match(strings.ToLower(pattern), strings.ToLower(name))
	}
	return fits(f.account, row.Account) && fits(f.model, row.Model) && (f.upstream == "" || f.upstream == row.Upstream)
}

func quota(ctx context.Context, env *environment, args []string) error {
	var src config.Sources
	var want quotaFilter
	set := flags(env, &src.Path)
	set.StringVar(&want.account, "account", "", "")
	set.StringVar(&want.model, "model", "", "")
	set.StringVar(&want.upstream, "upstream", "", "")
	asJSON := set.Bool("json", false, "")
	if err := parse(env, set, args, 0); err != nil {
		return err
	}
	sparing := src
	sparing.Spare = noSecrets
	loaded, err := config.Load(sparing)
	if err != nil {
		return err
	}
	if err := accountUpstream("quota", loaded.Config, want.upstream, false); err != nil {
		return err
	}
	handle, err := openControl(ctx, env, src, true)
	if err != nil {
		return err
	}
	defer handle.Close()
	found, err := handle.Quota(ctx)
	if err != nil {
		return misused(err)
	}
	for _, problem := range found.Problems {
		env.say("%s", printable(problem))
	}
	rows := slices.DeleteFunc(slices.Clone(found.Rows), func(row perigee.QuotaRow) bool { return !want.lets(row) })
	if err := listQuota(env, *asJSON, rows); err != nil {
		return err
	}
	return want.missed(found, rows)
}

// missed is the error about a listing that has become empty.
func (f quotaFilter) missed(found perigee.QuotaList, rows []perigee.QuotaRow) error {
	switch {
	case len(rows) > 0:
		return nil
	case len(found.Rows) == 0 && len(found.Problems) > 0:
		return perigee.Errorf(perigee.ClassUnauthenticated, "no account can be asked").WithNext("perigee account list shows their state")
	case len(found.Rows) == 0:
		return perigee.Errorf(perigee.ClassUnauthenticated, "no account is in use").WithNext("run perigee login, or see perigee account list")
	}
	var accounts, models []string
	for _, row := range found.Rows {
		accounts, models = append(accounts, row.Account), append(models, row.Model)
	}
	for _, c := range []struct {
		what, pattern string
		known         []string
	}{{"account", f.account, accounts}, {"model", f.model, models}} {
		slices.Sort(c.known)
		near := names.Nearest(strings.ToLower(strings.Trim(c.pattern, "*")), slices.Compact(c.known), 3)
		if c.pattern == "" || slices.ContainsFunc(c.known, func(name string) bool { return names.Match(strings.ToLower(c.pattern), strings.ToLower(name)) }) {
			continue
		}
		e := perigee.Errorf(perigee.ClassNotFound, "no %s fits %q", c.what, c.pattern)
		if len(near) > 0 {
			return e.WithNext("the nearest are %s", strings.Join(near, ", "))
		}
		return e.WithNext("perigee quota without --%s lists all", c.what)
	}
	return perigee.Errorf(perigee.ClassNotFound, "nothing fits all of that").WithNext("leave out a filter")
}

// listQuota prints a table for each account, as what somebody wants to know is about one.
func listQuota(env *environment, asJSON bool, rows []perigee.QuotaRow) error {
	if asJSON {
		return list(env, true, rows)
	}
	sorted := slices.Clone(rows)
	slices.SortStableFunc(sorted, func(a, b perigee.QuotaRow) int {
		return cmp.Or(cmp.Compare(a.Account, b.Account), cmp.Compare(a.Upstream, b.Upstream), cmp.Compare(a.Model, b.Model), cmp.Compare(a.Pool, b.Pool))
	})
	several := slices.ContainsFunc(sorted, func(row perigee.QuotaRow) bool { return row.Upstream != sorted[0].Upstream })
	for i := 0; i < len(sorted); {
		head := sorted[i]
		end := i
		for end < len(sorted) && sorted[end].Account == head.Account && sorted[end].Upstream == head.Upstream {
			end++
		}
		title := head.Account
		if several {
			title += " at " + head.Upstream
		}
		if i > 0 {
			fmt.Fprintln(env.stdout)
		}
		if _, err := fmt.Fprintln(env.stdout, printable(title)); err != nil {
			return err
		}
		if err := listModels(env, sorted[i:end]); err != nil {
			return err
		}
		i = end
	}
	return nil
}

// listModels is what one account has left.
func listModels(env *environment, rows []perigee.QuotaRow) error {
	now := time.Now()
	return list(env, false, rows,
		column[perigee.QuotaRow]{"  MODEL", func(r perigee.QuotaRow) any { return "  " + r.Model }},
		column[perigee.QuotaRow]{"POOL", func(r perigee.QuotaRow) any { return r.Pool }},
		column[perigee.QuotaRow]{"LEFT", func(r perigee.QuotaRow) any { return percent(r.Remaining) }},
		column[perigee.QuotaRow]{"RESETS", func(r perigee.QuotaRow) any { return ahead(r.ResetsAt, now) }},
		column[perigee.QuotaRow]{"WINDOWS", func(r perigee.QuotaRow) any { return windowsOf(r, now) }},
		column[perigee.QuotaRow]{"RUNS OUT", func(r perigee.QuotaRow) any {
			switch {
			case r.Remaining <= 0:
				return "used up"
			case r.RunsOutAt.IsZero():
				return "-"
			}
			return ahead(r.RunsOutAt, now)
		}},
	)
}

// percent never says that something is left when nothing is, nor the other way round.
func percent(fraction float64) string {
	switch p := 100 * fraction; {
	case p > 0 && p < 1:
		return "<1%"
	case p < 100 && p > 99:
		return "99%"
	default:
		return fmt.Sprintf("%.0f%%", p)
	}
}

func ahead(t, now time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return "in " + span(t.Sub(now))
}

func windowsOf(r perigee.QuotaRow, now time.Time) string {
	var words []string
	for _, w := range r.Windows {
		words = append(words, fmt.Sprintf("%s %s (%s)", w.Window, percent(w.Remaining), ahead(w.ResetsAt, now)))
	}
	return orDash(strings.Join(words, ", "))
}
