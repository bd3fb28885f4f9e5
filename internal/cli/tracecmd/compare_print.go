package tracecmd

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"perigee"
	"perigee/internal/cli"
	"perigee/internal/cli/command"
	"perigee/internal/lib/terminal"
	"perigee/internal/observe/trace/story"
)

// recordedRow is the name of the recorded calls in tables.
const recordedRow = "recorded"

// printCall prints a call with its recorded answer and the answers of the models.
func (c *comparison) printCall(call *perigee.Trace, was story.Answer, answers []compared) error {
	out, palette := c.env.Stdout, terminal.PaletteOf(c.env.Stdout)
	head := terminal.Joined("call "+call.ID, call.Time.In(command.Zone()).Format(time.DateTime), string(call.Dialect), call.ClientName,
		terminal.Labelled("session", call.Session))
	fmt.Fprintln(out, palette.Paint(terminal.Printable(head), terminal.Strong))
	table := terminal.NewTable("MODEL", "UPSTREAM", "RESULT", "INPUT", "CACHED", "OUTPUT", "COST", "FIRST BYTE", "DURATION", "DIFFERS")
	addAnswer(table, cmp.Or(call.ModelAsked, call.Model)+" ("+recordedRow+")", call, "-")
	for i := range answers {
		addAnswer(table, answers[i].asked, &answers[i].Trace, differs(&answers[i].Result))
	}
	if err := table.Write(out, c.env.Width()); err != nil {
		return err
	}
	for i := range answers {
		a := &answers[i]
		if a.Error != "" {
			fmt.Fprintln(out, palette.Paint(terminal.Printable(a.asked+": "+c.env.Hint(a.Error)), terminal.Bad))
		}
		if !c.diff || a.Same {
			continue
		}
		if err := printDiff(c.env, story.Unified("call "+call.ID, was, a.asked, a.answer)); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(out)
	return err
}

// addAnswer adds the row of an answer.
func addAnswer(table *terminal.Table, name string, t *perigee.Trace, differs string) {
	result := string(t.Outcome)
	if t.Outcome == perigee.OutcomeFailed {
		result = string(t.Class)
	}
	if t.Model != t.ModelAsked && t.ModelAsked != "" && t.Model != "" {
		name += " → " + t.Model
	}
	row := traceUsage(t)
	table.Add(name, command.OrDash(t.Upstream), result, terminal.Count(row.InputTokens), terminal.Count(row.CachedTokens),
		terminal.Count(row.OutputTokens), costCell(row), duration(t.FirstByteMS), duration(t.DurationMS), differs)
}

// duration formats a number of milliseconds; 0 is unknown.
func duration(ms float64) terminal.Amount {
	if ms == 0 {
		return "-"
	}
	return terminal.Amount(terminal.Duration(time.Duration(ms * float64(time.Millisecond))))
}

// traceUsage returns the usage of a recorded call.
func traceUsage(t *perigee.Trace) perigee.UsageRow {
	row := usageRow(perigee.Usage{Input: t.InputTokens, Cached: t.CachedTokens, Written: t.WrittenTokens, Output: t.OutputTokens,
		Thinking: t.ThinkingTokens}, t.CostUSD)
	if failed(t) {
		row.Errors = 1
	}
	return row
}

// differs names the parts in which an answer differs from the recorded one, or nothing. Usage is
// left out: it has columns.
func differs(r *story.Result) string {
	var parts []string
	for _, d := range r.Differences {
		part, _, _ := strings.Cut(d.Where, "[")
		part = strings.ReplaceAll(part, "_", " ")
		if !strings.HasPrefix(part, "usage.") && !slices.Contains(parts, part) {
			parts = append(parts, part)
		}
	}
	return cmp.Or(strings.Join(parts, ", "), "nothing")
}

// printEnd prints the sums of the models, or all results as JSON.
func (c *comparison) printEnd() error {
	if c.env.JSON {
		return cli.List(c.env, c.results, nil, nil)
	}
	if len(c.results) == 0 {
		return nil
	}
	table := terminal.NewTable("TOTAL", "CALLS", "ERRORS", "INPUT", "CACHED", "OUTPUT", "COST", "DURATION")
	add := func(name string, list []*perigee.Trace) {
		var sum perigee.UsageRow
		ms := 0.0
		for _, t := range list {
			sum.Add(traceUsage(t))
			ms += t.DurationMS
		}
		table.Add(name, sum.Calls, sum.Errors, terminal.Count(sum.InputTokens), terminal.Count(sum.CachedTokens),
			terminal.Count(sum.OutputTokens), costCell(sum), duration(ms))
	}
	originals, of := []*perigee.Trace{}, map[string][]*perigee.Trace{}
	for i := range c.results {
		r := &c.results[i]
		if n := len(originals); n == 0 || originals[n-1].ID != r.Original.ID {
			originals = append(originals, &r.Original)
		}
		of[r.asked] = append(of[r.asked], &r.Trace)
	}
	add(recordedRow, originals)
	for _, model := range c.models {
		add(model, of[model])
	}
	return table.Write(c.env.Stdout, c.env.Width())
}
