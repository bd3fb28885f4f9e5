package pages

import (
	"cmp"
	"strings"

	"perigee"
	"perigee/internal/observe/dashboard/html"
)

// tokenField is the field of a form that proves that this dashboard wrote the form.
func tokenField(value string) html.HTML {
	return html.F(`<input type="hidden" name="token" value="{}">`, value)
}

// command is a command for a terminal, with a button that copies it.
func command(text string) html.HTML {
	return html.F(`<span class="command"><code>{}</code><button type="button" class="copy" data-copy="{}" hidden aria-label="Copy: {}">{}</button></span>`,
		text, text, text, icon("copy"))
}

// warning shows a problem above the content of a page. It is empty without a text.
func warning(text string) html.HTML {
	return html.If(text != "", `<p class="banner warn">{}<span>{}</span></p>
`, icon("warn"), text)
}

// unready shows why calls cannot be answered.
func unready(reason string) html.HTML {
	return html.F(`<p class="banner bad" role="alert">{}<span>Calls cannot be answered: {}</span></p>
`, icon("warn"), reason)
}

// small is an additional text. It is empty without one.
func small(text string) html.HTML { return html.With(text, `<small>{}</small>`) }

// or is a text, or none if the text is empty.
func or(text, none string) html.HTML {
	if text == "" {
		return html.F(`<span class="none">{}</span>`, none)
	}
	return html.F(`{}`, text)
}

// stateItem is an item of a list of things with their states. Without a state there is only its
// colour.
func stateItem(tone string, name html.HTML, state string, details html.HTML) html.HTML {
	return html.F(`<li><span class="dot {}" aria-hidden="true"></span>`+
		`<div><strong>{}</strong>{}{}</div></li>`,
		tone, name, html.If(state != "", ` <span class="tone {}">{}</span>`, tone, state), details)
}

// errorsClass is the class of a cell with a number of errors.
func errorsClass(errors int64) string {
	if errors > 0 {
		return "c-num bad"
	}
	return "c-num"
}

// words returns an identifier as words.
func words(name string) string { return strings.ReplaceAll(name, "_", " ") }

// modelOf returns the model that answered, or the one that was asked for, or none.
func modelOf(c *perigee.Call, none string) string { return cmp.Or(c.Model, c.ModelAsked, none) }

// status shows how a call ended.
func status(c *perigee.Call) html.HTML {
	switch c.Outcome {
	case perigee.OutcomeDone:
		if c.ClientStatus == 0 {
			return html.F(`<span class="pill ok">done</span>`)
		}
		return html.F(`<span class="pill ok">{}</span>`, c.ClientStatus)
	case perigee.OutcomeOpen:
		return html.F(`<span class="pill live">open</span>`)
	case perigee.OutcomeCanceled:
		return html.F(`<span class="pill">canceled</span>`)
	case perigee.OutcomeCutOff:
		return html.F(`<span class="pill bad">cut off</span>`)
	}
	return html.F(`<span class="pill bad">{}</span>`, c.ClientStatus)
}

// failed reports whether a call failed or was cut off. A call that its client canceled has not
// failed.
func failed(c *perigee.Call) bool {
	return c.Outcome == perigee.OutcomeFailed || c.Outcome == perigee.OutcomeCutOff
}

// cacheOf shows how much of the input the provider had in its cache, and how much it wrote there.
func cacheOf(u perigee.Usage) html.HTML {
	return html.Join(
		html.If(u.Cached != 0, `<small>{} cached, {}</small>`, Count(u.Cached), Percent(u.HitRate())),
		html.If(u.Written != 0, `<small>{} written to the cache</small>`, Count(u.Written)))
}

// callTable is a table of calls with a caption.
func callTable(class, caption string, bodies html.HTML) html.HTML {
	return html.F(`<div class="surface"><table class="{}"><caption class="hidden">{}</caption><thead><tr><th scope="col">Status</th>`+
		`<th scope="col">Model</th><th scope="col">Client</th><th scope="col">Upstream</th><th scope="col" class="c-num">First byte</th>`+
		`<th scope="col" class="c-num">Total</th><th scope="col" class="c-num">In</th><th scope="col" class="c-num">Out</th>`+
		`<th scope="col" class="c-num">Cost</th><th scope="col" class="c-time">Time</th></tr></thead>{}</table></div>`, class, caption, bodies)
}

// CallRow is the row of a call in a table.
func CallRow(t Times, c perigee.Call) html.HTML { return callRow(t, c, modelNote(&c)) }

// callRow is a row with a note below the name of the model.
func callRow(t Times, c perigee.Call, note html.HTML) html.HTML {
	class := ""
	if failed(&c) {
		class = "failed"
	}
	return html.Join(
		html.F(`<tr id="call-{}" class="{}">
<td class="c-status">{}</td>
`, c.ID, class, status(&c)),
		html.F(`<th scope="row" class="c-model"><a href="/dashboard/calls/{}">{}</a>{}</th>
`, c.ID, modelOf(&c, "no model"), note),
		html.F(`<td class="c-client">{}{}</td>
<td class="c-upstream">{}{}</td>
`, or(c.Client.Name, "–"), small(c.Client.Key), or(c.Upstream, "–"), small(c.Account)),
		html.F(`<td class="c-num c-first">{}</td>
<td class="c-num c-total">{}</td>
`, Duration(c.FirstByte), Duration(c.Duration)),
		html.F(`<td class="c-num c-in" title="{} tokens in, {} of them cached">{}</td>
`, Exact(c.Usage.Input), Exact(c.Usage.Cached), Count(c.Usage.Input)),
		html.F(`<td class="c-num c-out" title="{} tokens out, {} of them thinking">{}</td>
`, Exact(c.Usage.Output), Exact(c.Usage.Thinking), Count(c.Usage.Output)),
		html.F(`<td class="c-num c-cost">{}</td>
<td class="c-time">{}</td>
</tr>`, Cost(c.Cost), t.element(c.Time, t.clock(c.Time))))
}

// modelNote is the note about a call below the name of its model.
func modelNote(c *perigee.Call) html.HTML {
	switch {
	case c.Class != "":
		return html.F(`<small class="bad">{}</small>`, words(string(c.Class)))
	case c.Model != "" && c.ModelAsked != "" && c.Model != c.ModelAsked:
		return html.F(`<small>for {}</small>`, c.ModelAsked)
	case c.Operation != perigee.OperationGenerate:
		return html.F(`<small>{}</small>`, c.Operation)
	}
	return html.HTML{}
}

// The units of a chart: a bar and the space beside it take chartStep.
const (
	chartHeight = 100.0
	chartStep   = 10.0
	barWidth    = 7.0
)

// chart draws bars, in the coordinates of an SVG without a fixed ratio. Labels are HTML beside the
// drawing.
func chart(c Chart) html.HTML {
	top := c.Top()
	var high, half, zero string
	if top > 0 {
		high, half, zero = c.Axis(top), c.Axis(top/2), "0"
	}
	x := -chartStep
	bar := func(column Column) html.HTML {
		x += chartStep
		y := chartHeight
		parts := html.Each(column.Parts, func(p Part) html.HTML {
			if top == 0 || p.Value <= 0 {
				return html.HTML{}
			}
			height := p.Value / top * chartHeight
			y -= height
			return html.F(`<rect x="{}" y="{}" width="7" height="{}" class="{}"/>`,
				Number(x+(chartStep-barWidth)/2), Number(y), Number(height), p.Class)
		})
		return html.F(`<g class="column"><rect x="{}" y="0" width="10" height="100" class="slot"/>{}`+
			`<title>{}</title></g>`, Number(x), parts, column.Title)
	}
	n := len(c.Columns)
	width := Number(chartStep * float64(max(n, 1)))
	line := func(y int, class string) html.HTML {
		return html.F(`<line x1="0" x2="{}" y1="{}" y2="{}" class="{}"/>`, width, y, y, class)
	}
	var labels []Column
	if n >= 3 {
		labels = []Column{c.Columns[0], c.Columns[n/2], c.Columns[n-1]}
	}
	return html.Join(
		html.F(`<div class="chart" role="img" aria-label="{}">{}`, c.Label,
			html.If(top == 0, `<p class="chart-empty">Nothing in this time</p>`)),
		html.F(`<div class="chart-y" aria-hidden="true"><span>{}</span><span>{}</span><span>{}</span></div>
`, high, half, zero),
		html.F(`<div class="chart-plot"><svg viewBox="0 0 {} 100" preserveAspectRatio="none" aria-hidden="true" focusable="false">
{}
{}
</svg></div>
`, width, html.Join(line(0, "grid"), line(50, "grid"), line(100, "grid ground")),
			html.Each(c.Columns, bar)),
		html.F(`<div class="chart-x" aria-hidden="true">{}</div>
</div>`, html.Each(labels, func(c Column) html.HTML { return html.F(`<span>{}</span>`, c.At) })))
}

// firstSteps takes the place of the list of calls before the first call.
func firstSteps() html.HTML {
	return html.F(`<div class="empty first">
{}
<h3>No call yet</h3>
<p>Start a client through perigee, and its calls appear here while they are answered.</p>
<p class="commands">{}{}</p>
<p><a class="more" href="/dashboard/setup">Set up another client{}</a></p>
</div>`, orbit(), command("perigee run claude-code"), command("perigee run codex"), icon("next"))
}
