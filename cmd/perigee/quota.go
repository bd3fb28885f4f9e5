package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"perigee"
	"perigee/internal/config"
)

var quotaCommand = command{
	name:    "quota",
	summary: "show what the accounts have left",
	run:     quota,
	usage: `  perigee quota
  perigee quota --json

Asks the provider what each account has left of each model, which costs no tokens. The provider counts in several windows
and refuses calls when one of them is used up; LEFT is the scarcest. RUNS OUT is when that will be if things go on as they
did since the window began. Works with and without a running daemon.

  --upstream NAME  only the accounts of this upstream
  --json           a JSON array: account, model, remaining (0 to 1), resets_at, and more
`,
}

func quota(ctx context.Context, env *environment, args []string) error {
	var src config.Sources
	set := flags(env, &src.Path)
	upstream := set.String("upstream", "", "")
	asJSON := set.Bool("json", false, "")
	if err := parse(env, set, args, 0); err != nil {
		return err
	}
	handle, err := openControl(ctx, env, src, true)
	if err != nil {
		return err
	}
	defer handle.Close()
	found, err := handle.Quota(ctx)
	if err != nil {
		return err
	}
	for _, problem := range found.Problems {
		env.say("%s", printable(problem))
	}
	rows := []perigee.QuotaRow{}
	for _, row := range found.Rows {
		if *upstream == "" || row.Upstream == *upstream {
			rows = append(rows, row)
		}
	}
	if err := listQuota(env, *asJSON, rows); err != nil || len(rows) > 0 {
		return err
	}
	if len(found.Problems) > 0 {
		return perigee.Errorf(perigee.ClassUnauthenticated, "no account can be asked").WithNext("perigee account list shows their state")
	}
	return perigee.Errorf(perigee.ClassUnauthenticated, "no account is in use").WithNext("run perigee login, or see perigee account list")
}

func listQuota(env *environment, asJSON bool, rows []perigee.QuotaRow) error {
	now := time.Now()
	return list(env, asJSON, rows,
		column[perigee.QuotaRow]{"ACCOUNT", func(r perigee.QuotaRow) any { return r.Account }},
		column[perigee.QuotaRow]{"MODEL", func(r perigee.QuotaRow) any { return r.Model }},
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
