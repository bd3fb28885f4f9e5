package command

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"perigee"
	"perigee/internal/cli"
	"perigee/internal/lib/lazyregexp"
	"perigee/internal/lib/terminal"
)

// ManyAccounts is the number of accounts from which on they are counted below the table.
const ManyAccounts = 20

// stateHelp explains the states that need an action.
var stateHelp = map[string]string{
	perigee.AccountUntested:     "imported; the first call with it will show whether it works",
	perigee.AccountSignedOut:    "the provider rejects its refresh token; perigee login signs it in again",
	perigee.AccountVerification: "the provider wants its owner to verify it; after that, run perigee account enable EMAIL",
	perigee.AccountBanned:       "the provider has disabled it; if that is undone, run perigee account enable EMAIL",
	perigee.AccountMisnamed: "its refresh token belongs to another account; perigee account remove EMAIL, and import it " +
		"under its own name",
}

// PrintStates prints the reason of each account's state and the meanings of the states.
func PrintStates(env *cli.Env, rows []perigee.AccountRow) error {
	counts, explained, disabled := map[string]int{}, map[string][]string{}, 0
	text := ""
	for _, row := range rows {
		counts[row.State]++
		if !row.Enabled {
			disabled++
		}
		if row.Reason != "" {
			text += fmt.Sprintf("%s: %s\n", terminal.Printable(row.Email), terminal.Printable(Addressed(row.Reason, row.Email)))
		}
		// The state of an account that cannot be decrypted is not the provider's, and a reason with
		// a command needs no more.
		if !row.Unopened && !strings.Contains(row.Reason, "perigee ") {
			explained[row.State] = append(explained[row.State], row.Email)
		}
	}
	var summary []string
	for _, state := range slices.Sorted(maps.Keys(counts)) {
		summary = append(summary, fmt.Sprintf("%d %s", counts[state], state))
		help, emails := stateHelp[state], explained[state]
		if len(emails) == 1 {
			help = Addressed(help, terminal.Printable(emails[0]))
		}
		if help != "" && len(emails) > 0 {
			text += fmt.Sprintf("%s: %s\n", state, help)
		}
	}
	if len(rows) >= ManyAccounts {
		text += fmt.Sprintf("%d accounts: %s; %d disabled\n", len(rows), strings.Join(summary, ", "), disabled)
	}
	return PrintBelow(env, env.Hint(text))
}

// PrintBelow prints lines below a table. At a terminal they are folded at words.
func PrintBelow(env *cli.Env, text string) error {
	if text == "" {
		return nil
	}
	if width := env.Width(); width > 0 {
		var folded []string
		for line := range strings.Lines(text) {
			folded = append(folded, terminal.Fold(strings.TrimRight(line, "\n"), width)...)
		}
		text = strings.Join(folded, "\n") + "\n"
	}
	_, err := fmt.Fprint(env.Stdout, "\n", text)
	return err
}

// accountAdvice is a command for one account, with or without its address.
var accountAdvice = lazyregexp.New("perigee account (?:enable|remove)(?: EMAIL\\b| [^\\s`]+@[^\\s`]+)?")

// Addressed adds an address to the commands in a text about one account.
func Addressed(text, email string) string {
	text = accountAdvice().ReplaceAllStringFunc(text, func(command string) string {
		if strings.Contains(command, "@") {
			return command
		}
		return strings.TrimSuffix(command, " EMAIL") + " " + email
	})
	return strings.ReplaceAll(text, email+"` with its address", email+"`")
}

// Cooldowns returns the cooldowns of an account and how long they last.
func Cooldowns(row perigee.AccountRow, now time.Time) string {
	var words []string
	for _, c := range row.Cooldowns {
		what := strings.TrimSpace(c.Family + " " + c.Pool)
		if what == "" {
			what = "everything"
		}
		words = append(words, fmt.Sprintf("%s for %s (%s)", what, terminal.Span(c.Until.Sub(now)), c.Reason))
	}
	return OrDash(strings.Join(words, "; "))
}
