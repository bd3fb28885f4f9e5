package main

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"perigee"
	"perigee/internal/cli"
	"perigee/internal/cli/command"
	"perigee/internal/lib/match"
	"perigee/internal/lib/terminal"
)

// A quotaFilter selects rows by patterns for the account and the model, and by upstream. Empty
// fields select all.
type quotaFilter struct{ account, model, upstream string }

func (f quotaFilter) selects(email, upstream string) bool {
	return matches(f.account, email) && (f.upstream == "" || f.upstream == upstream)
}

func matches(pattern, name string) bool {
	return pattern == "" || match.Pattern(strings.ToLower(pattern), strings.ToLower(name))
}

// quotaCommand prints the remaining quota.
func quotaCommand(ctx context.Context, env *cli.Env, args []string) error {
	var filter quotaFilter
	env.Flags.StringVar(&filter.account, "account", "", "")
	env.Flags.StringVar(&filter.model, "model", "", "")
	env.Flags.StringVar(&filter.upstream, "upstream", "", "")
	eachModel := env.Flags.Bool("models", false, "")
	env.DefineCSV()
	if _, err := env.Parse(args, 0); err != nil {
		return err
	}
	loaded, err := command.Load(env, command.NoSecrets)
	if err != nil {
		return err
	}
	if filter.upstream == "" && len(command.WithAccounts(loaded.Config)) == 0 {
		env.Remark("there is no quota to show: %s", command.NoAccounts(loaded.Config))
		return command.PrintQuota(env, nil, false)
	}
	if err := command.AccountUpstream("quota", loaded.Config, filter.upstream, false); err != nil {
		return err
	}
	handle, err := command.Connect(ctx, env, loaded, command.ExceptSignIn)
	if err != nil {
		return err
	}
	defer handle.Close()
	found, err := handle.Quota(ctx, true)
	if err != nil {
		return command.Misused(err)
	}
	accounts, err := handle.Accounts(ctx)
	if err != nil {
		return err
	}
	var rows []perigee.QuotaRow
	for _, row := range found.Rows {
		if filter.selects(row.Account, row.Upstream) && matches(filter.model, row.Model) {
			rows = append(rows, row)
		}
	}
	empty := filter.explainEmpty(rows, found, accounts)
	if empty == nil || filter.account == "" {
		filter.reportProblems(env, found.Problems, accounts)
	}
	if err := command.PrintQuota(env, rows, *eachModel || filter.model != ""); err != nil {
		return err
	}
	return empty
}

// reportProblems prints which of the selected accounts could not be asked, and why.
func (f quotaFilter) reportProblems(env *cli.Env, problems []perigee.Problem, accounts []perigee.AccountRow) {
	for _, row := range accounts {
		why := problemOf(row, problems)
		if why == "" || !f.selects(row.Email, row.Upstream) {
			continue
		}
		if row.Unopened {
			why = row.Reason // a new sign-in does not help
		}
		env.Remark("%s: %s", terminal.Printable(row.Email), terminal.Printable(command.Addressed(why, row.Email)))
	}
}

// problemOf returns why the quota of an account could not be read, or "" if it could.
func problemOf(row perigee.AccountRow, problems []perigee.Problem) string {
	for _, p := range problems {
		if p.Email == row.Email && p.Upstream == row.Upstream {
			return cmp.Or(p.Why, "unknown")
		}
	}
	return ""
}

// explainEmpty returns the error if there are no rows: no quota could be read, or no row passes the
// filter.
func (f quotaFilter) explainEmpty(rows []perigee.QuotaRow, found perigee.QuotaList, accounts []perigee.AccountRow) error {
	if len(rows) > 0 {
		return nil
	}
	var models, emails, unusable []string
	asked := false
	for _, row := range found.Rows {
		asked = asked || f.selects(row.Account, row.Upstream)
		models = append(models, row.Model)
	}
	for _, row := range accounts {
		emails = append(emails, row.Email)
		if f.selects(row.Email, row.Upstream) {
			unusable = append(unusable, terminal.Printable(row.Email+" fits, but "+whyNotAsked(row, found.Problems)))
		}
	}
	signedOut := func(text string) *perigee.Error { return perigee.Errorf(perigee.ClassUnauthenticated, "%s", text) }
	switch {
	case !asked && f.account != "" && len(unusable) > 0:
		return signedOut(strings.Join(unusable, "; ")).WithHint("perigee account list has details")
	case !asked && f.account == "" && len(found.Problems) > 0:
		return signedOut("no account is usable").WithHint("perigee account list shows their state")
	case !asked && f.account == "":
		return signedOut("no account is in use").WithHint("run perigee login, or see perigee account list")
	}
	return cmp.Or(noMatch("account", f.account, emails), noMatch("model", f.model, models),
		error(perigee.Errorf(perigee.ClassNotFound, "nothing matches all filters").WithHint("leave out a filter")))
}

func whyNotAsked(row perigee.AccountRow, problems []perigee.Problem) string {
	why := problemOf(row, problems)
	switch {
	case !row.Enabled:
		return "is disabled"
	case !perigee.UsableState(row.State):
		return "is " + command.StateText(row.State)
	case why != "":
		return "could not be asked: " + why
	}
	return "is not in use"
}

// noMatch returns the error about a pattern that matches no known name, or nil if it matches one or
// is empty.
func noMatch(what, pattern string, known []string) error {
	if pattern == "" || slices.ContainsFunc(known, func(name string) bool { return matches(pattern, name) }) {
		return nil
	}
	slices.Sort(known)
	e := perigee.Errorf(perigee.ClassNotFound, "no %s matches %q", what, pattern)
	if near := match.Nearest(strings.ToLower(strings.Trim(pattern, "*")), slices.Compact(known), 3); len(near) > 0 {
		return e.WithHint("the nearest are %s", strings.Join(near, ", "))
	}
	return e.WithHint("perigee quota without --%s lists all", what)
}
