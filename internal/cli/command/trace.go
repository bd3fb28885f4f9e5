package command

import (
	"slices"
	"time"

	"perigee"
	"perigee/internal/cli"
	"perigee/internal/lib/terminal"
)

// PrintTraces prints a table of calls. At a terminal it has short IDs, and times without the date
// of today.
func PrintTraces(env *cli.Env, rows []perigee.TraceRow) error {
	zone, digits := Zone(), longestID
	timeHead, layout := "TIME ("+zone.String()+")", time.DateTime
	if env.Width() > 0 {
		timeHead, layout, digits = "TIME", "2006-01-02 15:04", idDigits(rows)
	}
	today := time.Now().In(zone).Format(time.DateOnly)
	heads := []string{"ID", timeHead, "MODEL", "UPSTREAM", "ACCOUNT", "STATUS", "RESULT", "KEY", "CLIENT", "MS", "IN", "OUT"}
	agents := slices.ContainsFunc(rows, func(r perigee.TraceRow) bool { return r.Agent != "" || r.ParentAgent != "" })
	if agents {
		heads = append(heads, "SESSION", "AGENT")
	}
	return cli.List(env, rows, heads, func(r perigee.TraceRow) []any {
		at, model := r.Time.In(zone), OrDash(r.Model)
		if r.ModelAsked != "" && r.ModelAsked != r.Model {
			model = r.ModelAsked + " → " + r.Model
		}
		var status any = "-"
		if r.Status != 0 {
			status = r.Status
		}
		result := string(r.Outcome)
		if r.Outcome == perigee.OutcomeFailed {
			result = string(r.Class)
		}
		client := OrDash(r.ClientName)
		if r.ReplayOf != "" {
			client = "replay of " + r.ReplayOf[:min(digits, len(r.ReplayOf))]
		}
		format := layout
		if env.Width() > 0 && at.Format(time.DateOnly) == today {
			format = time.TimeOnly
		}
		cells := []any{r.ID[:min(digits, len(r.ID))], at.Format(format), model, OrDash(r.Upstream), OrDash(r.Account), status, result,
			OrDash(r.Key), client, terminal.Decimal(r.DurationMS), terminal.Count(r.InputTokens), terminal.Count(r.OutputTokens)}
		if agents {
			cells = append(cells, OrDash(shortName(r.Session)), agentCell(&r))
		}
		return cells
	})
}

// agentCell returns the agent of a call, and the one that started it.
func agentCell(r *perigee.TraceRow) string {
	if r.ParentAgent == "" {
		return OrDash(shortName(r.Agent))
	}
	return OrDash(shortName(r.Agent)) + " of " + shortName(r.ParentAgent)
}

// shortName returns the beginning of a client's name for a session or an agent.
func shortName(name string) string {
	if short := []rune(name); len(short) > 12 {
		return string(short[:11]) + "…"
	}
	return name
}

// The least and the most characters of an id that are shown. The first ten are the time in
// milliseconds.
const (
	shortestID = 12
	longestID  = 20
)

// idDigits returns the number of characters that distinguish the ids of a listing.
func idDigits(rows []perigee.TraceRow) int {
	for digits := shortestID; digits < longestID; digits++ {
		seen := map[string]bool{}
		for _, r := range rows {
			seen[r.ID[:min(digits, len(r.ID))]] = true
		}
		if len(seen) == len(rows) {
			return digits
		}
	}
	return longestID
}
