package pages

import (
	"strconv"
	"time"

	"perigee"
)

// A Chart is columns side by side, each of several parts.
type Chart struct {
	Label   string               // a description for screen readers
	Axis    func(float64) string // formats a value of the vertical axis; empty if it has no label
	Columns []Column
}

// A Column is the parts of a time, from the ground up.
type Column struct {
	At    string // the time, for the horizontal axis
	Title string // the numbers in words
	Parts []Part
}

// A Part is a piece of a Column, or of the bar of a row in a table.
type Part struct {
	Class string
	Value float64
}

func (c *Chart) add(at, title string, parts ...Part) {
	c.Columns = append(c.Columns, Column{at, title, parts})
}

// Top returns the upper end of the vertical axis: the next round number above all columns, or 0 if
// all are empty.
func (c *Chart) Top() float64 {
	var top float64
	for _, column := range c.Columns {
		var sum float64
		for _, p := range column.Parts {
			sum += p.Value
		}
		top = max(top, sum)
	}
	if top == 0 {
		return 0
	}
	scale := 1.0
	for top/scale >= 10 {
		scale *= 10
	}
	for top/scale < 1 {
		scale /= 10
	}
	for _, step := range []float64{1, 2, 3, 4, 5, 6, 8} {
		if top <= step*scale {
			return step * scale
		}
	}
	return 10 * scale
}

// Number formats a coordinate of an SVG.
func Number(f float64) string { return strconv.FormatFloat(f, 'f', 2, 64) }

// TokenParts returns the parts of a bar of tokens.
func TokenParts(r perigee.UsageRow) []Part {
	return []Part{
		{"s-input", float64(max(0, r.InputTokens-r.CachedTokens))},
		{"s-cached", float64(r.CachedTokens)},
		{"s-output", float64(max(0, r.OutputTokens-r.ThinkingTokens))},
		{"s-thinking", float64(r.ThinkingTokens)},
	}
}

// Days returns the rows of the last n days, one for each. Days without calls have empty rows.
func Days(rows []perigee.UsageRow, n int, now time.Time) (list []perigee.UsageRow) {
	byDay := map[string]perigee.UsageRow{}
	for _, r := range rows {
		byDay[r.Group] = r
	}
	for i := n - 1; i >= 0; i-- {
		day := now.UTC().AddDate(0, 0, -i).Format(time.DateOnly)
		row := byDay[day]
		row.Group = day
		list = append(list, row)
	}
	return list
}

// TokenChart returns a chart of the tokens of each day. days are rows of Days.
func TokenChart(days []perigee.UsageRow, label string) Chart {
	c := Chart{Label: label, Axis: countAxis}
	for _, r := range days {
		at, day := dayOf(r)
		c.add(at, day+": "+Exact(r.InputTokens)+" in, "+Exact(r.OutputTokens)+" out, "+
			Plural(r.Calls, "call"), TokenParts(r)...)
	}
	return c
}

// CostChart returns a chart of the cost of each day. Days without a price are empty.
func CostChart(days []perigee.UsageRow) Chart {
	c := Chart{Label: "Cost of each day; the table below has the numbers"}
	c.Axis = func(f float64) string {
		rounded, _ := strconv.ParseFloat(strconv.FormatFloat(f, 'g', 3, 64), 64) // it is a number
		return "$" + strconv.FormatFloat(rounded, 'f', -1, 64)
	}
	for _, r := range days {
		at, day := dayOf(r)
		c.add(at, day+": "+CostOf(r), Part{"s-cost", r.CostUSD.USD})
	}
	return c
}

// dayOf returns the day of a row, formatted for an axis and for a title.
func dayOf(r perigee.UsageRow) (at, title string) {
	day, _ := time.Parse(time.DateOnly, r.Group) // Days has written it
	return day.Format("2 Jan"), day.Format("Mon 2 Jan")
}

func countAxis(f float64) string { return Count(int64(f)) }
