package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"perigee"
	"perigee/internal/cli"
	"perigee/internal/cli/command"
	"perigee/internal/daemon"
	"perigee/internal/lib/terminal"
	"perigee/internal/store/config"
)

// usageCommand prints the usage of tokens and its list prices.
func usageCommand(ctx context.Context, env *cli.Env, args []string) error {
	var q perigee.UsageQuery
	env.Flags.StringVar(&q.By, "by", perigee.ByModel, "")
	env.Flags.StringVar(&q.Each, "each", "", "")
	since, until := env.Flags.String("since", "", ""), env.Flags.String("until", "", "")
	env.DefineCSV()
	if _, err := env.Parse(args, 0); err != nil {
		return err
	}
	if err := checkGroups(q); err != nil {
		return err
	}
	now := time.Now()
	var err error
	if q.Since, q.Until, err = cli.ParsePeriod("usage", *since, *until, now); err != nil {
		return err
	}
	loaded, err := command.Load(env, command.NoSecrets)
	if err != nil {
		return err
	}
	rows, err := command.Usage(ctx, env, loaded.Config, q, "calls")
	if err != nil {
		return err
	}
	if env.Structured() {
		return cli.List(env, rows, nil, nil)
	}
	if err := printUsage(env, rows, q); err != nil || len(rows) == 0 {
		return err
	}
	noteSimulator(ctx, env, loaded.Config, q)
	noteUnpriced(env, rows)
	if q.By == perigee.ByKey {
		return noteBudgets(ctx, env, loaded.Config, now)
	}
	return nil
}

func checkGroups(q perigee.UsageQuery) error {
	for flag, group := range map[string]string{"by": q.By, "each": q.Each} {
		if !slices.Contains(perigee.UsageGroups, group) && (flag == "by" || group != "") {
			last := len(perigee.UsageGroups) - 1
			return cli.Usagef("usage: cannot group by %q; --%s takes %s or %s", group, flag,
				strings.Join(perigee.UsageGroups[:last], ", "), perigee.UsageGroups[last])
		}
	}
	return nil
}

// printUsage prints a table with the sum of all rows.
func printUsage(env *cli.Env, rows []perigee.UsageRow, q perigee.UsageQuery) error {
	if len(rows) > 1 {
		sum := perigee.UsageRow{Group: "TOTAL"}
		for _, row := range rows {
			sum.Add(row)
		}
		rows = append(slices.Clone(rows), sum)
	}
	heads := []string{"CALLS", "INPUT", "CACHED", "OUTPUT", "THINKING", "ERRORS", "LIST PRICE"}
	if q.Each != "" {
		heads = append([]string{strings.ToUpper(q.Each)}, heads...)
	}
	return cli.List(env, rows, append([]string{strings.ToUpper(q.By)}, heads...), func(r perigee.UsageRow) []any {
		cost := r.CostUSD.String()
		if r.CostUSD.Known && r.UnpricedCalls > 0 {
			cost = "≥" + cost
		}
		cells := []any{command.OrDash(r.Group)}
		if q.Each != "" && r.Group == "TOTAL" {
			cells = append(cells, "")
		} else if q.Each != "" {
			cells = append(cells, command.OrDash(r.Each))
		}
		return append(cells, r.Calls, terminal.Count(r.InputTokens), terminal.Count(r.CachedTokens),
			terminal.Count(r.OutputTokens), terminal.Count(r.ThinkingTokens), r.Errors, terminal.Amount(cost))
	})
}

// noteUnpriced prints how many calls have no list price, if other calls have one.
func noteUnpriced(env *cli.Env, rows []perigee.UsageRow) {
	cost, unpriced := 0.0, int64(0)
	for _, row := range rows {
		cost, unpriced = cost+row.CostUSD.USD, unpriced+row.UnpricedCalls
	}
	if cost > 0 && unpriced > 0 {
		env.Remark("%s not included; --by model shows the models, and prices in the configuration adds prices",
			terminal.Number(int(unpriced), "call without a known price is", "calls without a known price are"))
	}
}

// noteSimulator prints how many of the calls the simulator answered, because their tokens cost
// nothing. If it answered all of them, it prints nothing.
func noteSimulator(ctx context.Context, env *cli.Env, cfg *config.Config, q perigee.UsageQuery) {
	if q.By == perigee.ByUpstream {
		return
	}
	q.By, q.Each = perigee.ByUpstream, ""
	rows, err := command.Usage(ctx, env, cfg, q, "calls")
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
		env.Remark("includes %s to the simulator; --by upstream lists them separately", terminal.Number(int(simulated), "call", "calls"))
	}
}
