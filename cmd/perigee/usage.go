package main

import (
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"perigee"
	"perigee/internal/config"
	"perigee/internal/daemon"
	"perigee/internal/sqlstore"
)

var usageCommand = command{
	name:    "usage",
	summary: "show token usage",
	run:     usage,
	usage: `usage: perigee usage [--by WHAT] [--since TIME] [--until TIME] [--json]

  perigee usage
  perigee usage --by day --since 2026-01-01 --json
  perigee usage --by account --since 2d

Sums up the recorded calls, with or without a running daemon. Input includes
cached tokens, output includes thinking. A row named "-" collects calls without
a value. --by upstream tells the simulator's tokens from real ones.

  --by WHAT        model, account, key, client, upstream or day (default
                   model)
  --since TIME     only calls from then on: a day (UTC), today, yesterday, a
                   time as RFC 3339, or an age: 90m, 1h, 2d, 1w
  --until TIME     only calls before then
  --json           a JSON array
  --config FILE    the configuration
`,
}

func usage(ctx context.Context, env *environment, args []string) error {
	src := config.Sources{Spare: noSecrets}
	var q perigee.UsageQuery
	set := flags(env, &src.Path)
	set.StringVar(&q.By, "by", perigee.ByModel, "")
	asJSON := set.Bool("json", false, "")
	since, until := set.String("since", "", ""), set.String("until", "", "")
	if err := parse(env, set, args, 0); err != nil {
		return err
	}
	if !slices.Contains(perigee.UsageGroups, q.By) {
		return usagef("usage: cannot group by %q; --by takes model, account, key, client, upstream or day", q.By)
	}
	var err error
	if q.Since, q.Until, err = period("usage", *since, *until, time.Now()); err != nil {
		return err
	}
	loaded, err := config.Load(src)
	if err != nil {
		return err
	}
	rows, err := readUsage(ctx, env, loaded.Config, q)
	if err != nil {
		return err
	}
	if !*asJSON && len(rows) > 0 {
		noteSimulator(ctx, env, loaded.Config, q)
	}
	if !*asJSON && len(rows) > 1 {
		rows = append(rows, total(rows))
	}
	return list(env, *asJSON, rows,
		column[perigee.UsageRow]{heading(q.By), func(r perigee.UsageRow) any { return orDash(r.Group) }},
		column[perigee.UsageRow]{"CALLS", func(r perigee.UsageRow) any { return r.Calls }},
		column[perigee.UsageRow]{"INPUT", func(r perigee.UsageRow) any { return amount(r.InputTokens) }},
		column[perigee.UsageRow]{"CACHED", func(r perigee.UsageRow) any { return amount(r.CachedTokens) }},
		column[perigee.UsageRow]{"OUTPUT", func(r perigee.UsageRow) any { return amount(r.OutputTokens) }},
		column[perigee.UsageRow]{"THINKING", func(r perigee.UsageRow) any { return amount(r.ThinkingTokens) }},
		column[perigee.UsageRow]{"ERRORS", func(r perigee.UsageRow) any { return r.Errors }},
	)
}

// noteSimulator says how many of the calls were answered by the simulator: their tokens cost nothing. Where only it has answered,
// there is nothing to tell apart.
func noteSimulator(ctx context.Context, env *environment, cfg *config.Config, q perigee.UsageQuery) {
	if q.By == perigee.ByUpstream {
		return
	}
	q.By = perigee.ByUpstream
	rows, err := readUsage(ctx, env, cfg, q)
	if err != nil {
		return
	}
	simulated, others := int64(0), int64(0)
	for _, row := range rows {
		isSimulator := func(u config.Upstream) bool { return u.Name == row.Group && u.Kind == config.KindSimulator }
		if row.Group == daemon.SimulatorName || slices.ContainsFunc(cfg.Upstreams, isSimulator) {
			simulated += row.Calls
		} else if row.Group != "" {
			others += row.Calls
		}
	}
	if simulated > 0 && others > 0 {
		env.say("includes %s to the simulator; --by upstream tells them apart", number(int(simulated), "call", "calls"))
	}
}

// total sums up the rows of a table.
func total(rows []perigee.UsageRow) perigee.UsageRow {
	sum := perigee.UsageRow{Group: "TOTAL"}
	for _, r := range rows {
		sum.Calls += r.Calls
		sum.InputTokens += r.InputTokens
		sum.CachedTokens += r.CachedTokens
		sum.OutputTokens += r.OutputTokens
		sum.ThinkingTokens += r.ThinkingTokens
		sum.Errors += r.Errors
	}
	return sum
}

// period reads the times between which calls count. One in which there can be none is not what anybody meant.
func period(command, since, until string, now time.Time) (from, to time.Time, err error) {
	for i, at := range []*time.Time{&from, &to} {
		text := []string{since, until}[i]
		if text == "" {
			continue
		}
		t, ok := moment(text, now)
		if !ok {
			return from, to, usagef("%s: %q is not a time; write it as 2026-01-31, 2026-01-31T00:00:00Z, yesterday, 2d or 1h30m", command, text)
		}
		*at = t
	}
	switch {
	case from.After(now):
		return from, to, usagef("%s: --since %s is in the future (%s)", command, since, from.Format(time.RFC3339))
	case !to.IsZero() && !from.Before(to):
		return from, to, usagef("%s: nothing lies between --since %s and --until %s: the first has to be the earlier one", command, since, until)
	}
	return from, to, nil
}

// moment reads a time as people write it. Days are those of UTC, by which usage is grouped.
func moment(text string, now time.Time) (t time.Time, ok bool) {
	today := now.UTC().Truncate(24 * time.Hour)
	switch text {
	case "now":
		return now, true
	case "today":
		return today, true
	case "yesterday":
		return today.AddDate(0, 0, -1), true
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, true
		}
	}
	for unit, days := range map[string]int{"d": 1, "w": 7} {
		if count, found := strings.CutSuffix(text, unit); found {
			n, err := strconv.ParseUint(count, 10, 12)
			return now.AddDate(0, 0, -int(n)*days), err == nil
		}
	}
	ago, err := time.ParseDuration(text)
	return now.Add(-ago), err == nil && ago > 0
}

func heading(by string) string {
	return strings.ToUpper(by)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func readUsage(ctx context.Context, env *environment, cfg *config.Config, q perigee.UsageQuery) ([]perigee.UsageRow, error) {
	query := url.Values{"by": {q.By}}
	for name, at := range map[string]time.Time{"since": q.Since, "until": q.Until} {
		if !at.IsZero() {
			query.Set(name, at.Format(time.RFC3339Nano))
		}
	}
	return readRecorded(ctx, env, cfg, "/v1/usage?"+query.Encode(), func(store *sqlstore.Store) ([]perigee.UsageRow, error) {
		return store.Usage(ctx, q)
	})
}
