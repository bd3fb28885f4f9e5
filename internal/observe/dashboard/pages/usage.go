package pages

import (
	"slices"
	"strings"

	"perigee"
	"perigee/internal/observe/dashboard/html"
)

// Usage is the page of usage and costs.
type Usage struct {
	Days   []perigee.UsageRow // one for each, the oldest first
	Groups []UsageGroup
	Prices string // the date of the price list
	Recent Recent
}

// UsageDays are the numbers of days that can be chosen.
var UsageDays = []int{7, 30, 90}

// A UsageGroup is the usage by one kind of group.
type UsageGroup struct {
	ID   string // perigee.ByModel
	Rows []perigee.UsageRow
	More int // rows that are left out
}

func (p Usage) HTML(Times) html.HTML {
	choice := func(days int) html.HTML {
		return html.F(`<a href="/dashboard/usage?days={}"{}>{} days</a>`,
			days, html.Attr(days == len(p.Days), ` aria-current="true"`), days)
	}
	head := html.F(`<div class="head"><h1>Usage</h1><nav class="segments" aria-label="Time">{}</nav></div>
`, html.Each(UsageDays, choice))
	var total perigee.UsageRow
	for _, day := range p.Days {
		total.Add(day)
	}
	if total.Calls == 0 {
		return html.F(`{}<div class="empty">{}<h2>Nothing was used in these {} days</h2>`+
			`<p>Tokens and cost of calls appear here, by day, model, client and key.</p>`+
			`<p><a class="more" href="/dashboard/setup">Set up a client{}</a></p></div>`, head, orbit(), len(p.Days), icon("next"))
	}
	return html.Join(head, p.recent(), p.sessions(), p.total(&total), p.charts(), p.days(),
		html.Each(p.Groups, UsageGroup.section))
}

// recent draws the last 24 hours.
func (p Usage) recent() html.HTML {
	r := &p.Recent
	if len(r.Upstreams) == 0 {
		return html.HTML{}
	}
	plot := func(title, legend html.HTML, c Chart) html.HTML {
		return html.F(`<div><div class="section-head"><h3>{}</h3>{}</div><div class="surface pad low">{}</div></div>
`, title, legend, chart(c))
	}
	row := func(l Latency) html.HTML {
		return html.Join(html.F(`<tr><th scope="row">{}</th><td class="c-num">{}</td><td class="{}">{}</td>`,
			upstreamLink(l.Upstream), Exact(l.Calls),
			errorsClass(l.Errors), Percent(float64(l.Errors)/float64(l.Calls))),
			html.F(`<td class="c-num">{}</td><td class="c-num">{}</td></tr>`,
				Duration(l.P50), Duration(l.P95)))
	}
	return html.F(`<section aria-labelledby="hours-title" id="usage-hours"><h2 id="hours-title">Last 24 hours</h2>
<div class="plots">{}{}{}</div>
<div class="surface scroll"><table class="plain"><caption class="hidden">Upstreams in the last 24 hours</caption><thead><tr><th scope="col">Upstream</th>`+
		`<th scope="col" class="c-num">Calls</th><th scope="col" class="c-num">Errors</th>`+
		`<th scope="col" class="c-num">First byte, median</th><th scope="col" class="c-num">95 %</th></tr></thead>
<tbody>{}</tbody></table></div>{}</section>
`, plot(html.F(`Tokens by hour`), html.HTML{}, r.Tokens),
		plot(html.F(`Calls by hour`), html.F(`<ul class="legend"><li><i class="s-done"></i>Done</li><li><i class="s-failed"></i>Errors</li></ul>`), r.Calls),
		plot(html.F(`Time to first byte`), html.F(`<ul class="legend"><li><i class="s-p50"></i>Median</li><li><i class="s-p95"></i>95 %</li></ul>`), r.FirstByte),
		html.Each(r.Upstreams, row), html.If(r.Cut, `<p class="after muted">Only the newest calls: there were more.</p>`))
}

// upstreamLink is the name of an upstream, which leads to its page.
func upstreamLink(name string) html.HTML {
	if name == "" {
		return or("", "none")
	}
	return html.F(`<a href="/dashboard/upstreams/{}">{}</a>`, name, name)
}

// sessions lists the sessions of the last 24 hours.
func (p Usage) sessions() html.HTML {
	if len(p.Recent.Sessions) == 0 {
		return html.HTML{}
	}
	var largest int64
	for _, s := range p.Recent.Sessions {
		largest = max(largest, s.Usage().Total())
	}
	row := func(s perigee.UsageRow) html.HTML {
		name := html.F(`<code title="{}">{}</code>{}`, s.Group, ShortID(s.Group), small(s.Each))
		return usageRow(s, name, float64(largest))
	}
	return html.F(`<section aria-labelledby="sessions-title" id="usage-session"><h2 id="sessions-title">Sessions of the last 24 hours</h2>
<div class="surface scroll"><table class="plain bars"><caption class="hidden">Sessions of the last 24 hours</caption><thead><tr><th scope="col">Session</th>`+
		`<th scope="col" class="c-bar"><span class="hidden">Share</span></th>{}</tr></thead>
<tbody>{}</tbody></table></div></section>
`, columns(), html.Each(p.Recent.Sessions, row))
}

func (p Usage) total(r *perigee.UsageRow) html.HTML {
	return html.Join(
		html.F(`<dl class="numbers" id="total">
<div><dt>Calls</dt><dd>{}</dd></div>
`, Exact(r.Calls)),
		tokens(r),
		html.F(`<div><dt>Cost</dt><dd>{}<small>list price{}</small></dd></div>
<div><dt>Errors</dt><dd>{}</dd></div>
</dl>
`, CostOf(*r), html.With(p.Prices, ` of {}`), Exact(r.Errors)))
}

func (p Usage) charts() html.HTML {
	costs := CostChart(p.Days)
	return html.Join(
		html.F(`<section aria-labelledby="days-title" id="usage-day"><div class="section-head"><h2 id="days-title">Tokens by day</h2>`+
			`<ul class="legend" aria-label="Colours"><li><i class="s-input"></i>Input</li><li><i class="s-cached"></i>Cached input</li>`+
			`<li><i class="s-output"></i>Output</li><li><i class="s-thinking"></i>Thinking</li></ul></div>
<div class="surface pad">{}</div></section>
`, chart(TokenChart(p.Days, "Tokens of each day; the table below has the numbers"))),
		html.If(costs.Top() > 0, `<section aria-labelledby="cost-title" id="usage-cost"><h2 id="cost-title">Cost by day</h2><div class="surface pad low">{}</div></section>
`, chart(costs)))
}

// columns are the heads of the numbers in each table.
func columns() html.HTML {
	return html.Each([]string{"Calls", "Input", "Cached", "Hit rate", "Written", "Output", "Thinking", "Cost", "Errors"}, func(name string) html.HTML {
		return html.F(`<th scope="col" class="c-num">{}</th>`, name)
	})
}

// hitRate is the cell with the part of the input that came from the provider's cache.
func hitRate(r perigee.UsageRow) html.HTML {
	rate := "–"
	if r.InputTokens > 0 {
		rate = Percent(r.Usage().HitRate())
	}
	return html.F(`<td class="c-num">{}</td>`, rate)
}

func (p Usage) days() html.HTML {
	number := func(n int64) html.HTML { return html.F(`<td class="c-num">{}</td>`, Exact(n)) }
	row := func(r perigee.UsageRow) html.HTML {
		if r.Calls == 0 {
			return html.HTML{}
		}
		return html.F(`<tr><th scope="row">{}</th>{}{}{}<td class="c-num">{}</td>{}</tr>`, r.Group,
			html.Each([]int64{r.Calls, r.InputTokens, r.CachedTokens}, number), hitRate(r),
			html.Each([]int64{r.WrittenTokens, r.OutputTokens, r.ThinkingTokens}, number), CostOf(r), number(r.Errors))
	}
	newestFirst := slices.Clone(p.Days)
	slices.Reverse(newestFirst)
	return html.F(`<section aria-label="Numbers of each day">
<details class="surface below"><summary>Numbers of each day</summary><table class="plain"><caption class="hidden">Usage of each day (UTC), the newest first</caption>`+
		`<thead><tr><th scope="col">Day (UTC)</th>{}</tr></thead>
<tbody>{}</tbody></table></details></section>
`, columns(), html.Each(newestFirst, row))
}

func (g UsageGroup) section() html.HTML {
	title, column := "By "+g.ID, strings.ToUpper(g.ID[:1])+g.ID[1:]
	var largest int64
	for _, r := range g.Rows {
		largest = max(largest, r.InputTokens+r.OutputTokens)
	}
	row := func(r perigee.UsageRow) html.HTML {
		return usageRow(r, html.F(`{}`, or(r.Group, "none")), float64(largest))
	}
	return html.Join(
		html.F(`<section aria-labelledby="{}-title" id="usage-{}"><h2 id="{}-title">{}</h2>
`, g.ID, g.ID, g.ID, title),
		html.F(`<div class="surface scroll"><table class="plain bars"><caption class="hidden">Usage {}</caption><thead><tr><th scope="col">{}</th>`+
			`<th scope="col" class="c-bar"><span class="hidden">Share</span></th>{}</tr></thead>
<tbody>{}</tbody></table></div>
`, title, column, columns(), html.Each(g.Rows, row)),
		html.F(`{}</section>`, html.If(g.More > 0, `<p class="after muted">{} more; <code>perigee usage --by {}</code> lists all.</p>`, g.More, g.ID)))
}

// usageRow is a row with a name, and a bar for its tokens in percent of the largest row.
func usageRow(r perigee.UsageRow, name html.HTML, largest float64) html.HTML {
	x := 0.0
	part := func(p Part) html.HTML {
		if largest <= 0 || p.Value == 0 {
			return html.HTML{}
		}
		width := p.Value / largest * 100
		x += width
		return html.F(`<rect x="{}" width="{}" height="8" class="{}"/>`,
			Number(x-width), Number(width), p.Class)
	}
	number := func(n int64) html.HTML {
		return html.F(`<td class="c-num" title="{}">{}</td>`, Exact(n), Count(n))
	}
	return html.Join(
		html.F(`<tr><th scope="row">{}</th><td class="c-bar"><svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true" focusable="false">{}</svg></td>`,
			name, html.Each(TokenParts(r), part)),
		html.F(`<td class="c-num">{}</td>{}{}{}<td class="c-num">{}</td><td class="{}">{}</td></tr>`, Exact(r.Calls),
			html.Each([]int64{r.InputTokens, r.CachedTokens}, number), hitRate(r),
			html.Each([]int64{r.WrittenTokens, r.OutputTokens, r.ThinkingTokens}, number),
			CostOf(r), errorsClass(r.Errors), Exact(r.Errors)))
}
