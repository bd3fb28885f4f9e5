package pages

import (
	"time"

	"perigee"
	"perigee/internal/observe/dashboard/html"
)

// Calls lists calls.
type Calls struct {
	Filter  CallFilter
	Periods []Period
	Calls   []perigee.Call
	Newer   bool   // the page does not begin with the newest
	First   string // address of the page with the newest
	Older   string // address of the next page; empty: there is none
	Any     bool   // a filter is set
}

// A CallFilter is what the form of the page says.
type CallFilter struct {
	Model, Client, Account, Key, Since string
	Errors                             bool
	Replays                            bool // also calls of trace replay and trace shrink
}

// A Period is a choice of times.
type Period struct {
	Value, Label string
	Length       time.Duration
}

func (p Calls) HTML(t Times) html.HTML {
	return html.Join(html.F(`<div class="head"><h1>Calls</h1></div>
`), p.form(), p.list(t))
}

func (p Calls) form() html.HTML {
	field := func(label, name, value, placeholder string) html.HTML {
		return html.F(`<label>{}<input name="{}" value="{}" placeholder="{}" autocomplete="off" spellcheck="false"></label>
`, label, name, value, placeholder)
	}
	choice := func(c Period) html.HTML {
		return html.F(`<option value="{}"{}>{}</option>`, c.Value, html.Attr(c.Value == p.Filter.Since, ` selected`), c.Label)
	}
	return html.F(`<form class="filter" method="get" action="/dashboard/calls" role="search" aria-label="Filter calls" id="filter">
{}{}{}{}<label>Time<select name="since">{}</select></label>
<label class="check"><input type="checkbox" name="errors" value="true"{}>Errors only</label>
<label class="check"><input type="checkbox" name="replays" value="true"{}>Replays too</label>
<div class="filter-act"><button class="button">Filter</button>{}</div>
</form>
`, field("Model", "model", p.Filter.Model, "gemini-*"), field("Client", "client", p.Filter.Client, "claude*"),
		field("Account", "account", p.Filter.Account, "any"), field("Key", "key", p.Filter.Key, "any"),
		html.Each(p.Periods, choice), html.Attr(p.Filter.Errors, ` checked`), html.Attr(p.Filter.Replays, ` checked`), html.If(p.Any, `<a class="quiet" href="/dashboard/calls">Clear</a>`))
}

func (p Calls) list(t Times) html.HTML {
	switch {
	case len(p.Calls) > 0:
		newest := html.F(`<span></span>`)
		if p.Newer {
			newest = html.F(`<a class="quiet" href="{}">{}Newest</a>`, p.First, icon("back"))
		}
		return html.F(`{}
<nav class="pager" aria-label="Pages">{}{}</nav>
`, callTable("calls", "Calls, the newest first", p.rows(t)), newest,
			html.If(p.Older != "", `<a class="quiet" rel="next" href="{}">Older{}</a>`, p.Older, icon("next")))
	case p.Any || p.Newer:
		return html.F(`<div class="empty"><h2>No call matches</h2><p>Patterns may contain <code>*</code> and <code>?</code>. `+
			`Old calls are removed after <code>retention.calls</code>.</p><p><a class="more" href="/dashboard/calls">Show all calls{}</a></p></div>
`, icon("next"))
	}
	return firstSteps()
}

// rows are the calls. Failures that repeat each other are one row, which shows the rest of them when it is opened.
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

// repeats reports whether a call failed as another one did: the same client and key got the same error for the same model.
func repeats(c, other *perigee.Call) bool {
	return failed(c) && c.Outcome == other.Outcome && c.Class == other.Class && c.ClientStatus == other.ClientStatus &&
		c.Client.Name == other.Client.Name && c.Client.Key == other.Client.Key && modelOf(c, "") == modelOf(other, "")
}

// group is a part of a table with one call, or with several that repeat each other, the newest first. Only the first of these is
// visible at first, if the browser can show the rest.
func group(t Times, calls []perigee.Call) html.HTML {
	newest, rest := calls[0], calls[1:]
	if len(rest) == 0 {
		return html.F(`<tbody>{}</tbody>`, CallRow(t, newest))
	}
	note := html.F(`<small class="bad">{} ×{}</small><details class="repeats"><summary>{} more since {}</summary></details>`,
		words(string(newest.Class)), len(calls), len(rest), t.clock(rest[len(rest)-1].Time))
	return html.F(`<tbody class="group">{}{}</tbody>`, callRow(t, newest, note), html.Each(rest, func(c perigee.Call) html.HTML { return CallRow(t, c) }))
}
