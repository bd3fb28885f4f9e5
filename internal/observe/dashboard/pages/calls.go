package pages

import (
	"maps"
	"net/url"
	"time"

	"perigee"
	"perigee/internal/observe/dashboard/html"
)

// Calls lists calls.
type Calls struct {
	Filter url.Values // the values of the form, without empty ones
	Calls  []perigee.Call
	Newer  bool   // the page does not begin with the newest
	Older  string // the last call of the page if there is a next one
}

// CallFilter are the parameters of the filter that have a text. The further ones, errors and
// replays, are flags.
var CallFilter = []string{"model", "client", "account", "key", "since"}

// A Period is a choice of times.
type Period struct {
	Value, Label string
	Length       time.Duration // 0 means all times
}

// Periods are the choices of times.
var Periods = []Period{
	{Value: "", Label: "Any time"},
	{Value: "1h", Label: "Last hour", Length: time.Hour},
	{Value: "24h", Label: "Last 24 hours", Length: 24 * time.Hour},
	{Value: "7d", Label: "Last 7 days", Length: 7 * 24 * time.Hour},
	{Value: "30d", Label: "Last 30 days", Length: 30 * 24 * time.Hour},
}

func (p Calls) HTML(t Times) html.HTML {
	return html.Join(html.F(`<div class="head"><h1>Calls</h1></div>
`), p.form(), p.list(t))
}

func (p Calls) form() html.HTML {
	field := func(label, name, placeholder string) html.HTML {
		return html.F(`<label>{}<input name="{}" value="{}" placeholder="{}" autocomplete="off" spellcheck="false"></label>
`, label, name, p.Filter.Get(name), placeholder)
	}
	choice := func(c Period) html.HTML {
		return html.F(`<option value="{}"{}>{}</option>`,
			c.Value, html.Attr(c.Value == p.Filter.Get("since"), ` selected`), c.Label)
	}
	return html.F(`<form class="filter" method="get" action="/dashboard/calls" role="search" aria-label="Filter calls" id="filter">
{}{}{}{}<label>Time<select name="since">{}</select></label>
<label class="check"><input type="checkbox" name="errors" value="true"{}>Errors only</label>
<label class="check"><input type="checkbox" name="replays" value="true"{}>Replays too</label>
<div class="filter-act"><button class="button">Filter</button>{}</div>
</form>
`, field("Model", "model", "gemini-*"), field("Client", "client", "claude*"),
		field("Account", "account", "any"), field("Key", "key", "any"), html.Each(Periods, choice),
		html.Attr(p.Filter.Has("errors"), ` checked`), html.Attr(p.Filter.Has("replays"), ` checked`),
		html.If(len(p.Filter) > 0, `<a class="quiet" href="/dashboard/calls">Clear</a>`))
}

// page returns the address of the page with the calls before one; before is empty for the first
// page.
func (p Calls) page(before string) string {
	values := maps.Clone(p.Filter)
	if before != "" {
		values.Set("before", before)
	}
	if len(values) == 0 {
		return "/dashboard/calls"
	}
	return "/dashboard/calls?" + values.Encode()
}

func (p Calls) list(t Times) html.HTML {
	switch {
	case len(p.Calls) > 0:
		newest := html.F(`<span></span>`)
		if p.Newer {
			newest = html.F(`<a class="quiet" href="{}">{}Newest</a>`, p.page(""), icon("back"))
		}
		return html.F(`{}
<nav class="pager" aria-label="Pages">{}{}</nav>
`, callTable("calls", "Calls, the newest first", p.rows(t)), newest,
			html.If(p.Older != "", `<a class="quiet" rel="next" href="{}">Older{}</a>`,
				p.page(p.Older), icon("next")))
	case len(p.Filter) > 0 || p.Newer:
		return html.F(`<div class="empty"><h2>No call matches</h2><p>Patterns may contain <code>*</code> and <code>?</code>. `+
			`Old calls are removed after <code>retention.calls</code>.</p><p><a class="more" href="/dashboard/calls">Show all calls{}</a></p></div>
`, icon("next"))
	}
	return firstSteps()
}

// rows are the calls. Failures that repeat each other are one row, which shows the rest of them
// when it is opened.
func (p Calls) rows(t Times) html.HTML {
	var bodies []html.HTML
	for rest := p.Calls; len(rest) > 0; {
		n := 1
		for n < len(rest) && repeats(&rest[n], &rest[0]) {
			n++
		}
		bodies = append(bodies, group(t, rest[:n]))
		rest = rest[n:]
	}
	return html.Join(bodies...)
}

// repeats reports whether a call failed as another one did: the same client and key got the same
// error for the same model.
func repeats(c, other *perigee.Call) bool {
	return failed(c) && c.Outcome == other.Outcome && c.Class == other.Class && c.ClientStatus == other.ClientStatus &&
		c.Client.Name == other.Client.Name && c.Client.Key == other.Client.Key && modelOf(c, "") == modelOf(other, "")
}

// group is a part of a table with one call, or with several that repeat each other, the newest
// first. Only the first of these is visible at first, if the browser can show the rest.
func group(t Times, calls []perigee.Call) html.HTML {
	newest, rest := calls[0], calls[1:]
	if len(rest) == 0 {
		return html.F(`<tbody>{}</tbody>`, CallRow(t, newest))
	}
	note := html.F(`<small class="bad">{} ×{}</small><details class="repeats"><summary>{} more since {}</summary></details>`,
		words(string(newest.Class)), len(calls), len(rest), t.clock(rest[len(rest)-1].Time))
	return html.F(`<tbody class="group">{}{}</tbody>`, callRow(t, newest, note), html.Each(rest, func(c perigee.Call) html.HTML { return CallRow(t, c) }))
}
