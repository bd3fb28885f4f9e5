package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"perigee"
	"perigee/internal/cli"
	"perigee/internal/cli/command"
	"perigee/internal/lib/terminal"
	"perigee/internal/store/config"
)

// listAccounts prints the accounts in a table, and below it the reasons of their states.
func listAccounts(ctx context.Context, r *accountRun) error {
	rows, err := r.control.Accounts(ctx)
	if err != nil {
		return err
	}
	if r.upstream != "" {
		rows = slices.DeleteFunc(rows, func(row perigee.AccountRow) bool { return row.Upstream != r.upstream })
	}
	if len(rows) == 0 {
		next := "run perigee login"
		if len(command.WithAccounts(r.loaded.Config)) == 0 {
			next = "add an upstream of kind antigravity, then run perigee login"
		}
		if r.env.Remark("no accounts; %s", next); !r.env.JSON {
			return nil
		}
	}
	now := time.Now()
	heads := []string{"ACCOUNT", "UPSTREAM", "ENABLED", "PREFERRED", "PROJECT", "STATE", "COOLDOWNS"}
	err = cli.List(r.env, rows, heads, func(row perigee.AccountRow) []any {
		preferred := "-"
		if row.Preferred {
			preferred = "yes"
		}
		return []any{row.Email, row.Upstream, command.YesNo(row.Enabled), preferred, command.OrDash(row.ProjectID), row.State, command.Cooldowns(row, now)}
	})
	if err != nil || r.env.JSON {
		return err
	}
	return command.PrintStates(r.env, rows)
}

// explainAccounts lists which account the next call for a model would use. For a model that no
// account has it lists the accounts and returns the error.
func explainAccounts(ctx context.Context, r *accountRun) error {
	rows, err := r.control.ExplainAccounts(ctx, r.argument)
	unknown := err
	if err != nil && perigee.AsError(err).Class == perigee.ClassNotFound {
		rows, err = r.control.ExplainAccounts(ctx, "")
	}
	if err != nil {
		return err
	}
	if r.upstream != "" {
		rows = slices.DeleteFunc(rows, func(row perigee.ChoiceRow) bool { return row.Upstream != r.upstream })
	}
	chosen, usable := false, false
	for i := range rows {
		if unknown != nil {
			if rows[i].Usable {
				rows[i].Why = "usable for other models"
			}
			rows[i].Chosen, rows[i].Usable = false, false
		}
		chosen, usable = chosen || rows[i].Chosen, usable || rows[i].Usable
	}
	first := r.printSteps(ctx)
	if err := r.listChoices(rows); err != nil {
		return err
	}
	switch {
	case unknown != nil:
		return unknown
	case len(rows) == 0:
		return perigee.Errorf(perigee.ClassUnauthenticated, "no accounts").WithHint("run perigee login")
	case !chosen && usable && first != "":
		return nil // the upstream that answers first needs no account
	case !chosen:
		return perigee.Errorf(perigee.ClassUnauthenticated, "no account can be used for %s now", terminal.Printable(r.argument)).
			WithHint("the list says why; perigee login adds another")
	}
	return nil
}

// printSteps prints how the model leads to upstreams. It returns the upstream that would answer, or
// "" if there is none or it is not known.
func (r *accountRun) printSteps(ctx context.Context) (upstream string) {
	found, err := r.control.ExplainRoute(ctx, perigee.RouteQuestion{Model: r.argument})
	if err != nil {
		return "" // the command is about the accounts
	}
	if r.env.JSON {
		return found.Upstream
	}
	for _, step := range found.Steps {
		fmt.Fprintln(r.env.Stdout, terminal.Printable(step))
	}
	usesAccounts := func(u config.Upstream) bool {
		return u.Name == found.Upstream && (u.HasAccounts() || u.AccountsFrom != "")
	}
	if found.Upstream != "" && !slices.ContainsFunc(r.loaded.Config.Upstreams, usesAccounts) {
		fmt.Fprintf(r.env.Stdout, "%s answers %s first; accounts follow if it fails\n", found.Upstream, terminal.Printable(found.Name))
	}
	return found.Upstream
}

// listChoices prints a table. At a terminal a reason with a web address is below it, where the
// address is not cut.
func (r *accountRun) listChoices(rows []perigee.ChoiceRow) error {
	now, below := time.Now(), ""
	err := cli.List(r.env, rows, []string{"ACCOUNT", "UPSTREAM", "POOL", "CHOSEN", "WHY"}, func(row perigee.ChoiceRow) []any {
		why := r.env.Hint(command.Addressed(row.Why, row.Email))
		if !row.Until.IsZero() {
			why += ", for " + terminal.Span(row.Until.Sub(now))
		}
		if r.env.Width() > 0 && strings.Contains(why, "://") {
			below += fmt.Sprintf("%s: %s\n", terminal.Printable(row.Email), terminal.Printable(why))
			why = "see below"
		}
		chosen := "no"
		switch {
		case row.Chosen:
			chosen = "yes"
		case row.Usable:
			chosen = "next"
		}
		return []any{row.Email, row.Upstream, row.Pool, chosen, why}
	})
	if err != nil {
		return err
	}
	return command.PrintBelow(r.env, below)
}
