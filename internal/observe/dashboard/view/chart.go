package view

import (
	"strconv"
	"time"

	"perigee"
)

// chartHeight and chartStep are the units of a chart: a bar takes chartStep, and the space beside it.
const (
	chartHeight = 100.0
	chartStep   = 10.0
	barWidth    = 7.0
)

// A Chart is bars, each of several parts. Its coordinates are those of an SVG without a fixed ratio; labels are HTML beside it.
type Chart struct {
	Width     string
	Bars      []Bar
	Top, Half string   // labels of the vertical axis
	Dates     []string // labels of the horizontal one
	Label     string   // what it shows, for a screen reader
	Empty     bool
}

// A Bar is one column of a Chart.
type Bar struct {
	Title     string
	X         string // of the bar
	Slot      string // of the space that belongs to it
	Parts     []Part
	Highlight bool
}

// A Part is a piece of a Bar.
type Part struct{ Class, Y, Height string }

// A level is the height of one part of a bar.
type level struct {
	class string
	value float64
}

// stack makes a chart of columns with titles.
func stack(columns [][]level, titles []string, format func(float64) string) Chart {
	var top float64
	for _, column := range columns {
		var sum float64
		for _, l := range column {
			sum += l.value
		}
		top = max(top, sum)
	}
	c := Chart{Width: number(chartStep * float64(max(len(columns), 1))), Empty: top == 0}
	if top > 0 {
		top = niceTop(top)
		c.Top, c.Half = format(top), format(top/2)
	}
	for i, column := range columns {
		b := Bar{Title: titles[i], X: number(float64(i)*chartStep + (chartStep-barWidth)/2), Slot: number(float64(i) * chartStep)}
		y := chartHeight
		for _, l := range column {
			if top == 0 || l.value <= 0 {
				continue
			}
			height := l.value / top * chartHeight
			y -= height
			b.Parts = append(b.Parts, Part{l.class, number(y), number(height)})
		}
		c.Bars = append(c.Bars, b)
	}
	return c
}

// niceTop is the next number above that people read easily.
func niceTop(v float64) float64 {
	scale := 1.0
	for v/scale >= 10 {
		scale *= 10
	}
	for v/scale < 1 {
		scale /= 10
	}
	for _, step := range []float64{1, 2, 3, 4, 5, 6, 8, 10} {
		if v <= step*scale {
			return step * scale
		}
	}
	return 10 * scale
}

func number(f float64) string { return strconv.FormatFloat(f, 'f', 2, 64) }

// tokenLevels are the parts of a bar of tokens, from the ground up.
func tokenLevels(r perigee.UsageRow) []level {
	return []level{
		{"s-input", float64(max(0, r.InputTokens-r.CachedTokens))},
		{"s-cached", float64(r.CachedTokens)},
		{"s-output", float64(max(0, r.OutputTokens-r.ThinkingTokens))},
		{"s-thinking", float64(r.ThinkingTokens)},
	}
}

// Days returns the rows of the last n days, one for each, and their dates. Days without calls have empty rows.
func Days(rows []perigee.UsageRow, n int, now time.Time) (list []perigee.UsageRow, dates []time.Time) {
	byDay := map[string]perigee.UsageRow{}
	for _, r := range rows {
		byDay[r.Group] = r
	}
	today := now.UTC().Truncate(24 * time.Hour)
	for i := n - 1; i >= 0; i-- {
		day := today.AddDate(0, 0, -i)
		row := byDay[day.Format(time.DateOnly)]
		row.Group = day.Format(time.DateOnly)
		list, dates = append(list, row), append(dates, day)
	}
	return list, dates
}

// dateLabels are labels for the first, the middle and the last date.
func dateLabels(dates []time.Time) []string {
	if len(dates) < 3 {
		return nil
	}
	var list []string
	for _, i := range []int{0, len(dates) / 2, len(dates) - 1} {
		list = append(list, dates[i].Format("2 Jan"))
	}
	return list
}

// TokenChart is the chart of the tokens of each day.
func TokenChart(rows []perigee.UsageRow, dates []time.Time) Chart {
	var columns [][]level
	var titles []string
	for i, r := range rows {
		columns = append(columns, tokenLevels(r))
		titles = append(titles, dates[i].Format("Mon 2 Jan")+": "+Exact(r.InputTokens)+" in, "+Exact(r.OutputTokens)+" out, "+Plural(r.Calls, "call"))
	}
	c := stack(columns, titles, func(f float64) string { return Count(int64(f)) })
	c.Dates = dateLabels(dates)
	c.Label = "Tokens of each day; the table below has the numbers"
	return c
}

// CostChart is the chart of the cost of each day. Days without a price are empty.
func CostChart(rows []perigee.UsageRow, dates []time.Time) Chart {
	var columns [][]level
	var titles []string
	for i, r := range rows {
		columns = append(columns, []level{{"s-cost", r.CostUSD.USD}})
		titles = append(titles, dates[i].Format("Mon 2 Jan")+": "+Cost(r.CostUSD))
	}
	c := stack(columns, titles, func(f float64) string {
		rounded, _ := strconv.ParseFloat(strconv.FormatFloat(f, 'g', 3, 64), 64) // it is a number
		return "$" + strconv.FormatFloat(rounded, 'f', -1, 64)
	})
	c.Dates = dateLabels(dates)
	c.Label = "Cost of each day; the table below has the numbers"
	return c
}

// A Share is a bar beside a row of a table: the tokens of a group, by kind.
type Share struct{ Class, X, Width string }

// Shares returns the parts of the bar of a row, in percent of the largest row.
func Shares(r perigee.UsageRow, largest int64) (list []Share) {
	var at float64
	for _, l := range tokenLevels(r) {
		if largest <= 0 || l.value == 0 {
			continue
		}
		width := l.value / float64(largest) * 100
		list = append(list, Share{l.class, number(at), number(width)})
		at += width
	}
	return list
}

// Number is a coordinate of an SVG.
func Number(f float64) string { return number(f) }
