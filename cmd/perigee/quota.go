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
	summary: "show remaining quota",
	run:     quota,
	usage: `usage: perigee quota [--models] [--account EMAIL] [--model MODEL]
         [--upstream NAME] [--json]

  perigee quota
  perigee quota --models
  perigee quota --account 'ada@*' --model 'claude-*'

Asks the provider what each account has left, which costs no tokens. Models
that share a quota share a row. The provider counts in several windows and
refuses calls when one of them is used up; LEFT is the scarcest. RUNS OUT is
when it will be used up at the rate since the window began. Works with and
without a running daemon.

  --models         one row for each model
  --account EMAIL  only these accounts; * stands for any characters, ? for one
  --model MODEL    only these models, likewise; one row for each
  --upstream NAME  only the accounts of this upstream
  --json           a JSON array: account, model, remaining (0 to 1), resets_at,
                   and more
  --config FILE    the configuration
`,
}

// A quotaFilter says which rows somebody wants to see. What is empty lets everything through.
type quotaFilter struct{ account, model, upstream string }

func (f quotaFilter) lets(row perigee.QuotaRow) bool {
	return f.wants(row.Account, row.Upstream) && fits(f.model, row.Model)
}

// wants says whether it is about an account.
func (f quotaFilter) wants(email, upstream string) bool {
	return fits(f.account, email) && (f.upstream == "" || f.upstream == upstream)
}

func fits(pattern, name string) bool {
	return pattern == "" || names.Match(strings.ToLower(pattern), strings.ToLower(name))
}

func quota(ctx context.Context, env *environment, args []string) error {
	var src config.Sources
	var want quotaFilter
	set := flags(env, &src.Path)
	set.StringVar(&want.account, "account", "", "")
	set.StringVar(&want.model, "model", "", "")
	set.StringVar(&want.upstream, "upstream", "", "")
	asJSON := set.Bool("json", false, "")
	eachModel := set.Bool("models", false, "")
	if err := parse(env, set, args, 0); err != nil {
		return err
	}
	sparing := src
	sparing.Spare = noSecrets
	loaded, err := config.Load(sparing)
	if err != nil {
		return err
	}
	if want.upstream == "" && len(withAccounts(loaded.Config)) == 0 {
		env.say("there is no quota to show: %s", noAccounts(loaded.Config))
		return listQuota(env, *asJSON, false, nil)
	}
	if err := accountUpstream("quota", loaded.Config, want.upstream, false); err != nil {
		return err
	}
	handle, err := openControl(ctx, env, src, notForSignIn)
	if err != nil {
		return err
	}
	defer handle.Close()
	found, err := handle.Quota(ctx)
	if err != nil {
		return misused(err)
	}
	all, err := handle.Accounts(ctx)
	if err != nil {
		return err
	}
	accounts := slices.DeleteFunc(slices.Clone(all), func(row perigee.AccountRow) bool { return !want.wants(row.Email, row.Upstream) })
	rows := slices.DeleteFunc(slices.Clone(found.Rows), func(row perigee.QuotaRow) bool { return !want.lets(row) })
	missed := want.missed(found, rows, accounts, all)
	if missed == nil || want.account == "" {
		sayProblems(env, found.Problems, accounts)
	}
	if err := listQuota(env, *asJSON, *eachModel || want.model != "", rows); err != nil {
		return err
	}
	return missed
}

// sayProblems says which of the accounts could not be asked, and why.
func sayProblems(env *environment, problems []perigee.AccountProblem, accounts []perigee.AccountRow) {
	for _, row := range accounts {
		why, failed := problemOf(row, problems)
		if !failed {
			continue
		}
		if row.Unopened {
			why = row.Reason // which is not that it should sign in again
		}
		env.say("%s: %s", printable(row.Email), printable(addressed(why, row.Email)))
	}
}

// problemOf is why an account could not be asked, if it could not.
func problemOf(row perigee.AccountRow, problems []perigee.AccountProblem) (why string, failed bool) {
	for _, p := range problems {
		if p.Email == row.Email && p.Upstream == row.Upstream {
			return p.Why, true
		}
	}
	return "", false
}

// missed is the error about a listing that has become empty. The accounts are those of all that it is about.
func (f quotaFilter) missed(found perigee.QuotaList, rows []perigee.QuotaRow, accounts, all []perigee.AccountRow) error {
	asked := slices.ContainsFunc(found.Rows, func(row perigee.QuotaRow) bool { return f.wants(row.Account, row.Upstream) })
	switch {
	case len(rows) > 0:
		return nil
	case !asked && f.account != "" && len(accounts) > 0:
		return whyNot(found.Problems, accounts)
	case f.account == "" && !asked && len(found.Problems) > 0:
		return perigee.Errorf(perigee.ClassUnauthenticated, "no account can be asked").WithNext("perigee account list shows their state")
	case f.account == "" && !asked:
		return perigee.Errorf(perigee.ClassUnauthenticated, "no account is in use").WithNext("run perigee login, or see perigee account list")
	}
	return f.nothingFits(found, all)
}

// whyNot is the error about accounts that somebody asked about, and that cannot be asked.
func whyNot(problems []perigee.AccountProblem, accounts []perigee.AccountRow) error {
	var words []string
	for _, row := range accounts {
		why := "is not in use"
		switch {
		case !row.Enabled:
			why = "is disabled"
		case !perigee.UsableState(row.State):
			why = "is " + stateWord(row.State)
		default:
			if text, failed := problemOf(row, problems); failed {
				why = "could not be asked: " + text
			}
		}
		words = append(words, printable(row.Email+" fits, but "+why))
	}
	return perigee.Errorf(perigee.ClassUnauthenticated, "%s", strings.Join(words, "; ")).WithNext("perigee account list tells more")
}

// nothingFits says which of the filters is the one that lets nothing through, and what is near.
func (f quotaFilter) nothingFits(found perigee.QuotaList, all []perigee.AccountRow) error {
	var accounts, models []string
	for _, row := range found.Rows {
		models = append(models, row.Model)
	}
	for _, row := range all {
		accounts = append(accounts, row.Email)
	}
	for _, c := range []struct {
		what, pattern string
		known         []string
	}{{"account", f.account, accounts}, {"model", f.model, models}} {
		slices.Sort(c.known)
		near := names.Nearest(strings.ToLower(strings.Trim(c.pattern, "*")), slices.Compact(c.known), 3)
		if c.pattern == "" || slices.ContainsFunc(c.known, func(name string) bool { return fits(c.pattern, name) }) {
			continue
		}
		e := perigee.Errorf(perigee.ClassNotFound, "no %s matches %q", c.what, c.pattern)
		if len(near) > 0 {
			return e.WithNext("the nearest are %s", strings.Join(near, ", "))
		}
		return e.WithNext("perigee quota without --%s lists all", c.what)
	}
	return perigee.Errorf(perigee.ClassNotFound, "nothing matches all filters").WithNext("leave out a filter")
}

// listQuota prints a table for each account, as what somebody wants to know is about one.
func listQuota(env *environment, asJSON, eachModel bool, rows []perigee.QuotaRow) error {
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
		account := sorted[i:end]
		if !eachModel {
			account = byGroup(account)
		}
		if err := listModels(env, account); err != nil {
			return err
		}
		i = end
	}
	return nil
}

// byGroup makes one row of those that share a quota: the provider repeats it for each of its models.
func byGroup(rows []perigee.QuotaRow) []perigee.QuotaRow {
	type quota struct {
		group, pool, windows string
		remaining            float64
		resets, runsOut      int64
	}
	var order []quota
	members := map[quota][]perigee.QuotaRow{}
	rowsOf := map[[2]string]int{}
	for _, r := range rows {
		q := quota{r.Group, r.Pool, fmt.Sprint(r.Windows), r.Remaining, r.ResetsAt.Unix(), r.RunsOutAt.Unix()}
		if members[q] == nil {
			order = append(order, q)
			rowsOf[[2]string{q.group, q.pool}]++
		}
		members[q] = append(members[q], r)
	}
	var grouped []perigee.QuotaRow
	for _, q := range order {
		row := members[q][0]
		switch n := len(members[q]); {
		case n == 1:
		case rowsOf[[2]string{q.group, q.pool}] == 1:
			row.Model = fmt.Sprintf("%s (%d models)", q.group, n)
		default:
			row.Model += fmt.Sprintf(" and %d more", n-1)
		}
		grouped = append(grouped, row)
	}
	return grouped
}

// listModels is what one account has left.
func listModels(env *environment, rows []perigee.QuotaRow) error {
	now := time.Now()
	return list(env, false, rows,
		column[perigee.QuotaRow]{"  MODELS", func(r perigee.QuotaRow) any { return "  " + r.Model }},
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
	p := 100*fraction + 1e-9 // 0.29 is a little less than 29 percent in binary
	switch {
	case fraction > 0 && p < 1:
		return "<1%"
	case fraction < 1 && p > 99.001:
		return ">99%"
	}
	return fmt.Sprintf("%d%%", int(p)) // rounded down: some of it has been used
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
