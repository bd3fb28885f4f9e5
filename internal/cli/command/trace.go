package command

import (
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
		return []any{r.ID[:min(digits, len(r.ID))], at.Format(format), model, OrDash(r.Upstream), OrDash(r.Account), status, result,
			OrDash(r.Key), client, terminal.Decimal(r.DurationMS), terminal.Count(r.InputTokens), terminal.Count(r.OutputTokens)}
	})
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
