package tracecmd

import (
	"context"
	"time"

	"perigee"
	"perigee/internal/adapt/models"
	"perigee/internal/cli"
	"perigee/internal/lib/terminal"
)

// A plan is what a comparison will send, with an estimate of what that costs.
type plan struct {
	calls     []perigee.Trace
	estimates []estimate // in the order of the models
}

// An estimate is the expected usage of the calls at one model. Group of the row is its name.
type estimate struct {
	route perigee.RouteExplanation
	perigee.UsageRow
}

// newPlan looks up where calls to the models go, and finds the calls. A model that no upstream
// would answer for is an error.
func newPlan(ctx context.Context, c *comparison, s *selection) (*plan, error) {
	var p plan
	for _, model := range c.models {
		route, err := c.client.ExplainRoute(ctx, perigee.RouteQuestion{Model: model})
		if err != nil {
			return nil, err
		}
		if route.Upstream == "" {
			return nil, perigee.Errorf(perigee.ClassUnavailable, "nothing was sent: no upstream would answer a call for %s now", terminal.Printable(model)).
				WithHint("perigee explain %s has the reasons, and perigee models lists the models", terminal.ShellWord(model))
		}
		p.estimates = append(p.estimates, estimate{route: route})
	}
	var err error
	if p.calls, err = s.find(ctx, c.client); err != nil {
		return nil, err
	}
	prices, now := c.cfg.PriceBook(), time.Now()
	for i := range p.estimates {
		e := &p.estimates[i]
		if e.route.Local { // also if only the daemon has its address, such as from OLLAMA_HOST
			prices.AddLocal(e.route.Upstream)
		}
		e.UsageRow = estimateUsage(prices, &e.route, p.calls, now)
	}
	return &p, nil
}

// estimateUsage estimates the usage of calls that are sent again to the model of a route: the tokens
// that they had, none of which is in the provider's cache. Where the input is unknown, it is
// estimated by the size of the request.
func estimateUsage(prices *models.PriceBook, route *perigee.RouteExplanation, calls []perigee.Trace, now time.Time) perigee.UsageRow {
	sum := perigee.UsageRow{Group: route.Model}
	for i := range calls {
		u := perigee.Usage{Input: calls[i].InputTokens, Output: calls[i].OutputTokens, Thinking: calls[i].ThinkingTokens}
		if u.Input == 0 {
			u.Input = perigee.EstimateTokens(int(calls[i].BytesIn), 0)
		}
		cost := prices.CallCost(&perigee.Call{Outcome: perigee.OutcomeDone, Time: now, Model: route.Name, Upstream: route.Upstream, Usage: u})
		sum.Add(usageRow(u, cost))
	}
	return sum
}

// usageRow returns the usage of one call.
func usageRow(u perigee.Usage, cost perigee.Cost) perigee.UsageRow {
	row := perigee.UsageRow{Calls: 1, InputTokens: u.Input, CachedTokens: u.Cached, WrittenTokens: u.Written,
		OutputTokens: u.Output, ThinkingTokens: u.Thinking, CostUSD: cost}
	if !cost.Known && u.Total() > 0 {
		row.UnpricedCalls = 1
	}
	return row
}

// costCell returns the cost of calls for a table: at least so much if the price of some is unknown.
func costCell(row perigee.UsageRow) terminal.Amount {
	if !row.CostUSD.Known && row.UnpricedCalls > 0 {
		return "unknown"
	}
	return terminal.Amount(row.CostText())
}

// print writes the plan to Stderr.
func (p *plan) print(env *cli.Env) error {
	env.Remark("to be sent: %s to %s, %s in all. They use tokens like any other call; tools that a model calls are not run.",
		terminal.Number(len(p.calls), "recorded call", "recorded calls"), terminal.Number(len(p.estimates), "model", "models"),
		terminal.Number(p.total(), "call", "calls"))
	table := terminal.NewTable("MODEL", "ANSWERED BY", "CALLS", "INPUT", "OUTPUT", "LIST PRICE")
	add := func(name, by string, row perigee.UsageRow) {
		table.Add(name, by, row.Calls, terminal.Count(row.InputTokens), terminal.Count(row.OutputTokens), costCell(row))
	}
	var sum perigee.UsageRow
	for _, e := range p.estimates {
		by := e.route.Upstream
		if e.route.Name != e.Group {
			by = e.route.Name + " at " + by
		}
		add(e.Group, by, e.UsageRow)
		sum.Add(e.UsageRow)
	}
	if len(p.estimates) > 1 {
		add("TOTAL", "", sum)
	}
	if err := table.Write(env.Stderr, terminal.Width(env.Stderr)); err != nil {
		return err
	}
	env.Remark("this estimate assumes the tokens of the recorded calls, and that no input is cached")
	for _, e := range p.estimates {
		if len(e.route.Conditions) > 0 {
			env.Remark("routes of %s depend on the request: another upstream or model may answer some of the calls", e.Group)
		}
	}
	return nil
}

// total is the number of calls to be sent.
func (p *plan) total() int { return len(p.calls) * len(p.estimates) }

// confirm asks a person. Without one, it returns a usage error.
func (p *plan) confirm(ctx context.Context, env *cli.Env) error {
	if env.Input() != cli.TerminalInput {
		return cli.Usagef("trace: nothing was sent: stdin is not a terminal; pass --yes to send without asking")
	}
	return env.Confirm(ctx, "send "+terminal.Number(p.total(), "call", "calls")+"?", "pass --yes")
}
