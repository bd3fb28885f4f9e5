package main

import (
	"context"
	"fmt"
	"time"

	"perigee"
	"perigee/internal/cli"
	"perigee/internal/cli/command"
	"perigee/internal/lib/terminal"
	"perigee/internal/store/config"
)

// recent is the time whose rate of use a forecast goes by.
const recent = time.Hour

// noteBudgets says how much of their budgets keys have used today, and when these will be used up.
func noteBudgets(ctx context.Context, env *cli.Env, cfg *config.Config, now time.Time) error {
	midnight := now.UTC().Truncate(24 * time.Hour)
	var today, lately map[string]perigee.Spent
	for _, k := range cfg.Keys {
		if k.TokensPerDay == 0 && k.CostPerDay == 0 {
			continue
		}
		if today == nil {
			var err error
			if today, err = spentSince(ctx, env, cfg, midnight); err != nil {
				return err
			}
			if lately, err = spentSince(ctx, env, cfg, later(midnight, now.Add(-recent))); err != nil {
				return err
			}
		}
		spent, rate := today[k.Name], lately[k.Name]
		for _, b := range []budget{
			{float64(k.TokensPerDay), float64(spent.Tokens), float64(rate.Tokens),
				fmt.Sprintf("%d of its %d tokens", spent.Tokens, k.TokensPerDay)},
			{k.CostPerDay, spent.USD, rate.USD, fmt.Sprintf("%s of its %s", perigee.USD(spent.USD), perigee.USD(k.CostPerDay))},
		} {
			if b.limit > 0 {
				env.Say("key %s has used %s for today%s", terminal.Printable(k.Name), b.words, b.forecast(now))
			}
		}
	}
	return nil
}

func spentSince(ctx context.Context, env *cli.Env, cfg *config.Config, since time.Time) (map[string]perigee.Spent, error) {
	q := perigee.UsageQuery{By: perigee.ByKey, Since: since}
	rows, err := command.Usage(ctx, env, cfg, q, "calls")
	keys := map[string]perigee.Spent{}
	for _, row := range rows {
		keys[row.Group] = row.Spent()
	}
	return keys, err
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// A budget is what a key may use on a day, what it has used today, and what of that in the time
// that a forecast goes by.
type budget struct {
	limit, used, lately float64
	words               string
}

// forecast says when a budget will be used up at the rate of the last hour; empty means not before
// the day ends.
func (b budget) forecast(now time.Time) string {
	end := b.runsOut(now)
	if end.IsZero() {
		return ""
	}
	return fmt.Sprintf("; at the rate of the last hour it runs out at %s (in %s)", end.Local().Format("15:04"), terminal.Span(end.Sub(now)))
}

// runsOut is when a budget will be used up if the key goes on as it did lately; zero means not
// before the UTC day ends, or it is already. Before the first hour of a day has passed, what was
// used since midnight is the rate.
func (b budget) runsOut(now time.Time) time.Time {
	midnight := now.UTC().Truncate(24 * time.Hour)
	passed := min(recent, now.Sub(midnight))
	if b.used >= b.limit || b.lately <= 0 || passed <= 0 {
		return time.Time{}
	}
	left := (b.limit - b.used) / b.lately * float64(passed)
	if left >= float64(midnight.Add(24*time.Hour).Sub(now)) {
		return time.Time{}
	}
	return now.Add(time.Duration(left)).Truncate(time.Second)
}
