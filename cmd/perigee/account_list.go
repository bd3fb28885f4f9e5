package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"perigee"
)

// listAccounts shows the accounts in a table that is as narrow as it can be, and below it what takes more words.
func listAccounts(ctx context.Context, r *accountRun) error {
	rows, err := r.control.Accounts(ctx)
	if err != nil {
		return err
	}
	if r.upstream != "" {
		rows = slices.DeleteFunc(rows, func(row perigee.AccountRow) bool { return row.Upstream != r.upstream })
	}
	if len(rows) == 0 {
		r.env.say("no account is signed in; with an upstream of kind antigravity, perigee login changes that")
	}
	if err := list(r.env, r.asJSON, rows, accountColumns(rows, isTerminal(r.env.stdout))...); err != nil || r.asJSON {
		return err
	}
	return r.sayMore(rows)
}

// accountColumns are what the table shows. A terminal is narrow: what is the same everywhere, or seldom asked for, would only
// break its lines.
func accountColumns(rows []perigee.AccountRow, narrow bool) []column[perigee.AccountRow] {
	now := time.Now()
	columns := []column[perigee.AccountRow]{{"ACCOUNT", func(row perigee.AccountRow) any { return row.Email }}}
	if !narrow || slices.ContainsFunc(rows, func(row perigee.AccountRow) bool { return row.Upstream != rows[0].Upstream }) {
		columns = append(columns, column[perigee.AccountRow]{"UPSTREAM", func(row perigee.AccountRow) any { return row.Upstream }})
	}
	columns = append(columns, column[perigee.AccountRow]{"ENABLED", func(row perigee.AccountRow) any { return yesNo(row.Enabled) }})
	if !narrow {
		columns = append(columns, column[perigee.AccountRow]{"PROJECT", func(row perigee.AccountRow) any { return orDash(row.ProjectID) }})
	}
	return append(columns,
		column[perigee.AccountRow]{"STATE", func(row perigee.AccountRow) any { return row.State }},
		column[perigee.AccountRow]{"RESTS", func(row perigee.AccountRow) any { return restsOf(row, now) }})
}

// manyAccounts is from how many on a person wants to know how many they are.
const manyAccounts = 20

// stateHelp says what those states mean that a newcomer asks about.
var stateHelp = map[string]string{
	perigee.AccountUntested:     "it was imported, and the first call with it will show whether it works",
	perigee.AccountSignedOut:    "the provider no longer takes its refresh token; perigee login signs it in again",
	perigee.AccountVerification: "the provider wants its owner to prove something first; after that, perigee account enable EMAIL",
	perigee.AccountBanned:       "the provider has disabled it; if that was undone, perigee account enable EMAIL",
	perigee.AccountMisnamed:     "its refresh token belongs to another account; perigee account remove EMAIL, and import it under its own name",
}

// sayMore writes below a table why accounts are in their states, and what the states mean.
func (r *accountRun) sayMore(rows []perigee.AccountRow) error {
	counts, off := map[string]int{}, 0
	var text strings.Builder
	for _, row := range rows {
		counts[row.State]++
		if !row.Enabled {
			off++
		}
		if row.Reason != "" {
			fmt.Fprintf(&text, "%s: %s\n", printable(row.Email), printable(row.Reason))
		}
	}
	states := slices.Sorted(maps.Keys(counts))
	for _, state := range states {
		if help := stateHelp[state]; help != "" {
			fmt.Fprintf(&text, "%s: %s\n", state, help)
		}
	}
	if len(rows) >= manyAccounts {
		var words []string
		for _, state := range states {
			words = append(words, fmt.Sprintf("%d %s", counts[state], state))
		}
		fmt.Fprintf(&text, "%d accounts: %s; %d disabled\n", len(rows), strings.Join(words, ", "), off)
	}
	if text.Len() == 0 {
		return nil
	}
	_, err := fmt.Fprint(r.env.stdout, "\n", r.env.hint(text.String()))
	return err
}

// restsOf says what an account is not used for, and for how long.
func restsOf(row perigee.AccountRow, now time.Time) string {
	var words []string
	for _, c := range row.Cooldowns {
		what := strings.TrimSpace(c.Family + " " + c.Pool)
		if what == "" {
			what = "everything"
		}
		words = append(words, fmt.Sprintf("%s for %s (%s)", what, span(c.Until.Sub(now)), c.Reason))
	}
	return orDash(strings.Join(words, "; "))
}

// span is a time from now as a person would say it.
func span(d time.Duration) string {
	switch {
	case d <= 0:
		return "a moment"
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Round(time.Second)/time.Second))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Round(time.Minute)/time.Minute))
	case d < 48*time.Hour:
		d = d.Round(time.Minute)
		return fmt.Sprintf("%dh%02dm", int(d/time.Hour), int(d%time.Hour/time.Minute))
	}
	d = d.Round(time.Hour)
	return fmt.Sprintf("%dd%02dh", int(d/(24*time.Hour)), int(d%(24*time.Hour)/time.Hour))
}

// explainAccounts says whom the next call for a model would be made with. Of a model that nobody has it says so, and how the
// accounts are all the same.
func explainAccounts(ctx context.Context, r *accountRun) error {
	rows, err := r.control.ExplainAccounts(ctx, r.name)
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
	if unknown != nil {
		for i := range rows {
			if rows[i].Usable {
				rows[i].Why += " for other models"
			}
			rows[i].Chosen, rows[i].Usable = false, false
		}
	}
	if err := r.listChoices(rows); err != nil {
		return err
	}
	switch {
	case unknown != nil:
		return unknown
	case len(rows) == 0:
		return perigee.Errorf(perigee.ClassUnauthenticated, "no account is signed in").WithNext("run perigee login")
	case !slices.ContainsFunc(rows, func(row perigee.ChoiceRow) bool { return row.Chosen }):
		return perigee.Errorf(perigee.ClassUnauthenticated, "no account can be taken for %s now", printable(r.name)).
			WithNext("the list says why; perigee login adds another")
	}
	return nil
}

func (r *accountRun) listChoices(rows []perigee.ChoiceRow) error {
	now := time.Now()
	return list(r.env, r.asJSON, rows,
		column[perigee.ChoiceRow]{"ACCOUNT", func(row perigee.ChoiceRow) any { return row.Email }},
		column[perigee.ChoiceRow]{"UPSTREAM", func(row perigee.ChoiceRow) any { return row.Upstream }},
		column[perigee.ChoiceRow]{"POOL", func(row perigee.ChoiceRow) any { return row.Pool }},
		column[perigee.ChoiceRow]{"TAKEN", func(row perigee.ChoiceRow) any { return taken(row) }},
		column[perigee.ChoiceRow]{"WHY", func(row perigee.ChoiceRow) any {
			why := r.env.hint(row.Why)
			if row.Until.IsZero() {
				return why
			}
			return why + ", for " + span(row.Until.Sub(now))
		}},
	)
}

func taken(row perigee.ChoiceRow) string {
	switch {
	case row.Chosen:
		return "yes"
	case row.Usable:
		return "next"
	}
	return "no"
}
