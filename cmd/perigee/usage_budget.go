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

// recent is the period from which a forecast takes the rate of use.
const recent = time.Hour

// noteBudgets prints how much of their budgets keys have used today, and when these run out.
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
				env.Remark("key %s has used %s for today%s", terminal.Printable(k.Name), b.words, b.forecast(now))
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

// A budget has the limit of a key for a day, its use today, and the part of that in the recent
// period.
type budget struct {
	limit, used, lately float64
	words               string
}

// forecast returns a clause about when the budget runs out at the rate of the last hour, or "" if
// that is not before the day ends.
func (b budget) forecast(now time.Time) string {
	end := b.runsOut(now)
	if end.IsZero() {
		return ""
	}
	return fmt.Sprintf("; at the rate of the last hour it runs out at %s (in %s)", end.Local().Format("15:04"), terminal.Span(end.Sub(now)))
}

// runsOut returns when the budget runs out at the recent rate of use, or the zero time if that is
// not before the UTC day ends, or if it has run out. In the first hour of a day, the rate is the
// use since midnight.
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
