package pages

import (
	"time"

	"perigee"
	"perigee/internal/dashboard/html"
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
`, callTable(t, "calls", "Calls, the newest first", p.Calls, html.Attributes{}), newest,
			html.If(p.Older != "", `<a class="quiet" rel="next" href="{}">Older{}</a>`, p.Older, icon("next")))
	case p.Any || p.Newer:
		return html.F(`<div class="empty"><h2>No call matches</h2><p>Patterns may contain <code>*</code> and <code>?</code>. `+
			`Old calls are removed after <code>retention.calls</code>.</p><p><a class="more" href="/dashboard/calls">Show all calls{}</a></p></div>
`, icon("next"))
	}
	return firstSteps()
}
