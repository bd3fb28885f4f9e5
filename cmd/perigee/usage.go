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
	divided := q
	if !env.Structured() && q.Each == "" && q.By != perigee.ByUpstream {
		divided.Each = perigee.ByUpstream // for noteSimulator: a second query would take as long
	}
	parts, err := command.Usage(ctx, env, loaded.Config, divided, "calls")
	if err != nil {
		return err
	}
	if env.Structured() {
		return cli.List(env, parts, nil, nil)
	}
	if err := printUsage(env, addParts(parts, q), q); err != nil || len(parts) == 0 {
		return err
	}
	noteSimulator(ctx, env, loaded.Config, divided, parts)
	noteUnpriced(env, parts)
	if q.By == perigee.ByKey {
		return noteBudgets(ctx, env, loaded.Config, now)
	}
	return nil
}

// addParts returns one row per group if q divides groups no further. The parts of a group are
// adjacent, and groups keep their order.
func addParts(parts []perigee.UsageRow, q perigee.UsageQuery) (rows []perigee.UsageRow) {
	if q.Each != "" {
		return parts
	}
	for _, part := range parts {
		if len(rows) == 0 || rows[len(rows)-1].Group != part.Group {
			rows = append(rows, perigee.UsageRow{Group: part.Group})
		}
		rows[len(rows)-1].Add(part)
	}
	return rows
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
	hits := slices.ContainsFunc(rows, func(r perigee.UsageRow) bool { return r.CachedTokens > 0 })
	writes := slices.ContainsFunc(rows, func(r perigee.UsageRow) bool { return r.WrittenTokens > 0 })
	if writes {
		heads = slices.Insert(heads, 3, "WRITTEN")
	}
	if hits {
		heads = slices.Insert(heads, 3, "HIT RATE")
	}
	if q.Each != "" {
		heads = append([]string{strings.ToUpper(q.Each)}, heads...)
	}
	return cli.List(env, rows, append([]string{strings.ToUpper(q.By)}, heads...), func(r perigee.UsageRow) []any {
		cells := []any{command.OrDash(r.Group)}
		if q.Each != "" && r.Group == "TOTAL" {
			cells = append(cells, "")
		} else if q.Each != "" {
			cells = append(cells, command.OrDash(r.Each))
		}
		cells = append(cells, r.Calls, terminal.Count(r.InputTokens), terminal.Count(r.CachedTokens))
		if hits {
			cells = append(cells, hitRate(r))
		}
		if writes {
			cells = append(cells, terminal.Count(r.WrittenTokens))
		}
		return append(cells, terminal.Count(r.OutputTokens), terminal.Count(r.ThinkingTokens), r.Errors, terminal.Amount(r.CostText()))
	})
}

// hitRate is the part of the input that came from the provider's cache, or a dash without input.
func hitRate(r perigee.UsageRow) string {
	if r.InputTokens == 0 {
		return "-"
	}
	return terminal.Percent(r.Usage().HitRate())
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
// nothing. If it answered all of them, it prints nothing. rows are the result of q.
func noteSimulator(ctx context.Context, env *cli.Env, cfg *config.Config, q perigee.UsageQuery, rows []perigee.UsageRow) {
	if q.By == perigee.ByUpstream {
		return
	}
	upstream := func(row perigee.UsageRow) string { return row.Each }
	if q.Each != perigee.ByUpstream {
		q.By, q.Each = perigee.ByUpstream, ""
		var err error
		if rows, err = command.Usage(ctx, env, cfg, q, "calls"); err != nil {
			return
		}
		upstream = func(row perigee.UsageRow) string { return row.Group }
	}
	simulated, others := int64(0), int64(0)
	for _, row := range rows {
		name := upstream(row)
		isSimulator := func(u config.Upstream) bool { return u.Name == name && u.Kind == config.KindSimulator }
		if name == daemon.SimulatorName || slices.ContainsFunc(cfg.Upstreams, isSimulator) {
			simulated += row.Calls
		} else if name != "" {
			others += row.Calls
		}
	}
	if simulated > 0 && others > 0 {
		env.Remark("includes %s to the simulator; --by upstream lists them separately", terminal.Number(int(simulated), "call", "calls"))
	}
}
