package main

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"perigee"
)

// listAccounts shows the accounts in a table, and below it what takes more words.
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
		if len(withAccounts(r.loaded.Config)) == 0 {
			next = "add an upstream of kind antigravity, then run perigee login"
		}
		if r.env.say("no accounts; %s", next); !r.asJSON {
			return nil
		}
	}
	now := time.Now()
	err = list(r.env, r.asJSON, rows,
		column[perigee.AccountRow]{"ACCOUNT", func(row perigee.AccountRow) any { return row.Email }},
		column[perigee.AccountRow]{"UPSTREAM", func(row perigee.AccountRow) any { return row.Upstream }},
		column[perigee.AccountRow]{"ENABLED", func(row perigee.AccountRow) any { return yesNo(row.Enabled) }},
		column[perigee.AccountRow]{"PREFERRED", func(row perigee.AccountRow) any { return mark(row.Preferred) }},
		column[perigee.AccountRow]{"PROJECT", func(row perigee.AccountRow) any { return orDash(row.ProjectID) }},
		column[perigee.AccountRow]{"STATE", func(row perigee.AccountRow) any { return row.State }},
		column[perigee.AccountRow]{"COOLDOWNS", func(row perigee.AccountRow) any { return restsOf(row, now) }},
	)
	if err != nil || r.asJSON {
		return err
	}
	return r.sayMore(rows)
}

// mark is what one row of many has.
func mark(on bool) string {
	if on {
		return "yes"
	}
	return "-"
}

// manyAccounts is from how many on a person wants to know how many they are.
const manyAccounts = 20

// stateHelp says what those states mean that a newcomer asks about.
var stateHelp = map[string]string{
	perigee.AccountUntested:     "imported; the first call with it will show whether it works",
	perigee.AccountSignedOut:    "the provider rejects its refresh token; perigee login signs it in again",
	perigee.AccountVerification: "the provider wants its owner to verify it; after that, run perigee account enable EMAIL",
	perigee.AccountBanned:       "the provider has disabled it; if that is undone, run perigee account enable EMAIL",
	perigee.AccountMisnamed:     "its refresh token belongs to another account; perigee account remove EMAIL, and import it under its own name",
}

// sayMore writes below a table why accounts are in their states, and what the states mean.
func (r *accountRun) sayMore(rows []perigee.AccountRow) error {
	counts, explained, off := map[string]int{}, map[string][]string{}, 0
	var text strings.Builder
	for _, row := range rows {
		counts[row.State]++
		if !row.Enabled {
			off++
		}
		if row.Reason != "" {
			fmt.Fprintf(&text, "%s: %s\n", printable(row.Email), printable(addressed(row.Reason, row.Email)))
		}
		// The state of an account that cannot be decrypted says nothing about what the provider said, and a reason that ends in
		// a command has said it all.
		if !row.Unopened && !strings.Contains(row.Reason, "perigee ") {
			explained[row.State] = append(explained[row.State], row.Email)
		}
	}
	states := slices.Sorted(maps.Keys(counts))
	for _, state := range states {
		help, who := stateHelp[state], explained[state]
		if len(who) == 1 {
			help = addressed(help, printable(who[0]))
		}
		if help != "" && len(who) > 0 {
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
	_, err := fmt.Fprint(r.env.stdout, "\n", r.env.folded(r.env.hint(text.String())))
	return err
}

// folded breaks lines at their words where a terminal would break them anywhere.
func (e *environment) folded(text string) string {
	width := e.width()
	if width == 0 {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		for _, part := range foldWords(strings.TrimRight(line, "\n"), width, false) {
			fmt.Fprintln(&b, part)
		}
	}
	return b.String()
}

// aboutOne is a command about one account, with or without its address.
var aboutOne = regexp.MustCompile("perigee account (?:enable|remove)(?: EMAIL\\b| [^\\s`]+@[^\\s`]+)?")

// addressed completes the commands in a text that is about one account.
func addressed(text, email string) string {
	text = aboutOne.ReplaceAllStringFunc(text, func(command string) string {
		if strings.Contains(command, "@") {
			return command
		}
		return strings.TrimSuffix(command, " EMAIL") + " " + email
	})
	return strings.ReplaceAll(text, email+"` with its address", email+"`")
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
	case d < time.Second:
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
				rows[i].Why = "usable for other models"
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
		return perigee.Errorf(perigee.ClassUnauthenticated, "no accounts").WithNext("run perigee login")
	case !slices.ContainsFunc(rows, func(row perigee.ChoiceRow) bool { return row.Chosen }):
		return perigee.Errorf(perigee.ClassUnauthenticated, "no account can be used for %s now", printable(r.name)).
			WithNext("the list says why; perigee login adds another")
	}
	return nil
}

// listChoices shows them in a table. At a terminal an address that somebody has to open stands below it, where it is whole.
func (r *accountRun) listChoices(rows []perigee.ChoiceRow) error {
	now, below := time.Now(), ""
	why := func(row perigee.ChoiceRow) string {
		text := r.env.hint(addressed(row.Why, row.Email))
		if !row.Until.IsZero() {
			text += ", for " + span(row.Until.Sub(now))
		}
		return text
	}
	hasAddress := func(row perigee.ChoiceRow) bool { return r.env.width() > 0 && strings.Contains(row.Why, "://") }
	for _, row := range rows {
		if hasAddress(row) {
			below += fmt.Sprintf("%s: %s\n", printable(row.Email), printable(why(row)))
		}
	}
	err := list(r.env, r.asJSON, rows,
		column[perigee.ChoiceRow]{"ACCOUNT", func(row perigee.ChoiceRow) any { return row.Email }},
		column[perigee.ChoiceRow]{"UPSTREAM", func(row perigee.ChoiceRow) any { return row.Upstream }},
		column[perigee.ChoiceRow]{"POOL", func(row perigee.ChoiceRow) any { return row.Pool }},
		column[perigee.ChoiceRow]{"CHOSEN", func(row perigee.ChoiceRow) any { return taken(row) }},
		column[perigee.ChoiceRow]{"WHY", func(row perigee.ChoiceRow) any {
			if hasAddress(row) {
				return "see below"
			}
			return why(row)
		}},
	)
	if err != nil || below == "" || r.asJSON {
		return err
	}
	_, err = fmt.Fprint(r.env.stdout, "\n", r.env.folded(below))
	return err
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
