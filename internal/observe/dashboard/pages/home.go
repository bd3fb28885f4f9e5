package pages

import (
	"cmp"
	"slices"
	"strings"

	"perigee"
	"perigee/internal/observe/dashboard/html"
)

// Home is the page about now.
type Home struct {
	Open        []OpenCall
	Today       Today
	Recent      []perigee.Call
	Accounts    []perigee.AccountRow
	Status      perigee.DaemonStatus
	Langservers []perigee.LangserverRow
	Unready     []string
	Fresh       bool // nothing was called yet
	Problem     string
}

// A Today is the usage since midnight.
type Today struct {
	perigee.UsageRow
	Zone string             // the time zone of midnight
	Days []perigee.UsageRow // the last ones, the oldest first
}

// An OpenCall is a call that is being answered.
type OpenCall struct {
	perigee.Call
	Text, Thinking string
	Phase          string
	Tools          []string
}

func (p Home) HTML(t Times) html.HTML {
	return html.Join(
		html.F(`<div class="head"><h1>Now</h1><p class="live-state" id="live" data-state="off"><span class="dot" aria-hidden="true"></span>`+
			`<span class="label">Reload to update</span></p></div>
`),
		html.If(p.Status.Simulated, `<p class="banner info" id="simulated">{}<span>The built-in simulator answers, not a model. Add an upstream to the `+
			`<a href="/dashboard/config">configuration</a>, or set an API key such as <code>GEMINI_API_KEY</code> and start perigee again.</span></p>
`, icon("warn")),
		html.Each(p.Unready, unready),
		html.F(`<section aria-label="Today" data-live="today">{}</section>
<div class="columns">
<div>
{}
{}
</div>
<aside aria-label="State">
<section aria-labelledby="upstreams-title">
<h2 id="upstreams-title">Upstreams</h2>
<ul class="surface states" id="upstreams">{}{}</ul>
</section>
{}
</aside>
</div>
`, p.Today.HTML(), p.open(t), p.recent(t), html.Each(p.Status.Upstreams, p.upstream),
			html.If(len(p.Status.Upstreams) == 0, `<li class="none">None is known.</li>`), p.accounts(t)))
}

// open are the calls that are being answered.
func (p Home) open(t Times) html.HTML {
	none := firstSteps()
	if !p.Fresh {
		none = html.F(`<div class="empty slim"><p>Nothing is being answered right now. Calls appear here while they run, with their growing answers.</p></div>`)
	}
	return html.F(`<section aria-labelledby="open-title" id="open-calls">
<h2 id="open-title">Open calls <span class="tally" id="open-count">{}</span></h2>
<div class="opens" id="opens">{}</div>
<div id="no-open"{}>{}</div>
</section>`, len(p.Open), html.Each(p.Open, func(c OpenCall) html.HTML { return c.HTML(t) }), html.Attr(len(p.Open) > 0, ` hidden`), none)
}

func (p Home) recent(t Times) html.HTML {
	return html.F(`<section aria-labelledby="recent-title" id="recent"{}>
<h2 id="recent-title">Recent calls</h2>
{}
<p class="after"><a class="more" href="/dashboard/calls">All calls{}</a></p>
</section>`, html.Attr(len(p.Recent) == 0, ` hidden`),
		callTable("calls compact", "The last calls that have ended", html.F(`<tbody id="recent-rows">{}</tbody>`,
			html.Each(p.Recent, func(c perigee.Call) html.HTML { return CallRow(t, c) }))), icon("next"))
}

// upstream is an upstream with its state if it is known without a call. text is its name
// and, in brackets, its description.
func (p Home) upstream(text string) html.HTML {
	name, what, _ := strings.Cut(strings.TrimSuffix(text, ")"), " (")
	state, tone := "", "ok"
	for _, row := range p.Langservers {
		if row.Upstream == name {
			state = row.State
		}
	}
	if state != "" {
		tone = langserverTone(state)
	}
	return stateItem(tone, html.F(`<a href="/dashboard/upstreams/{}">{}</a>`, name, name), state, html.F(`<small>{}</small>`, what))
}

// accounts lists the accounts that cannot be used, or not for all models, or states that there are
// none.
func (p Home) accounts(t Times) html.HTML {
	if len(p.Accounts) == 0 && p.Problem == "" {
		return html.HTML{}
	}
	var bad, cooling []html.HTML
	newline := html.F("\n")
	for _, a := range p.Accounts {
		switch tone, _ := accountState(&a); {
		case !a.Enabled: // by the owner
		case tone == "bad":
			bad = append(bad, stateItem(tone, html.F(`{}`, a.Email), words(a.State), small(a.Reason)), newline)
		case tone == "warn":
			c := slices.MaxFunc(a.Cooldowns, func(a, b perigee.Cooldown) int {
				return a.Until.Compare(b.Until)
			})
			details := html.F(`<small>back in {}</small><small>{}: {}</small>`,
				t.until(c.Until), cmp.Or(c.Family, "all models"), c.Reason)
			cooling = append(cooling, stateItem(tone, html.F(`{}`, a.Email), "cooling down", details), newline)
		}
	}
	ready := html.HTML{}
	if len(p.Accounts) > 0 && len(bad)+len(cooling) == 0 {
		ready = html.F(`All {} accounts are ready.`, len(p.Accounts))
		if len(p.Accounts) == 1 {
			ready = html.F(`The account is ready.`)
		}
		ready = html.F(`<li><span class="dot ok" aria-hidden="true"></span><div>{}</div></li>`, ready)
	}
	return html.F(`<section aria-labelledby="accounts-title">
<h2 id="accounts-title">Accounts</h2>
<ul class="surface states" id="trouble">{}
{}{}</ul>
<p class="after"><a class="more" href="/dashboard/accounts">Accounts and quota{}</a></p>
</section>`, html.With(p.Problem, `<li><span class="dot bad" aria-hidden="true"></span><div>{}</div></li>`),
		html.Join(append(bad, cooling...)...), ready, icon("next"))
}

// HTML is the numbers of the day, which are also sent by themselves.
func (p Today) HTML() html.HTML {
	return html.Join(
		html.F(`<dl class="numbers" id="today">
<div><dt>Calls today</dt><dd id="today-calls">{}{}</dd></div>
`, Exact(p.Calls), html.With(p.Zone, `<small>since midnight, {}</small>`)),
		tokens(&p.UsageRow),
		html.F(`<div><dt>Cost</dt><dd id="today-cost">{}<small>list price</small></dd></div>
<div><dt>Errors</dt><dd{}>{}{}</dd></div>
`, CostOf(p.UsageRow), html.Attr(p.Errors > 0, ` class="bad"`), Exact(p.Errors),
			html.If(p.Errors > 0, `<small>{} of calls</small>`,
				Percent(float64(p.Errors)/float64(max(p.Calls, 1))))),
		html.F(`<div class="spark"><dt>Last 14 days, UTC</dt><dd>{}</dd></div>
</dl>`, chart(TokenChart(p.Days, "Tokens of each of the last 14 days"))))
}

// tokens are the tokens among the numbers of a time.
func tokens(r *perigee.UsageRow) html.HTML {
	return html.F(`<div><dt>Tokens in</dt><dd>{}{}</dd></div>
<div><dt>Tokens out</dt><dd>{}{}</dd></div>
`, Count(r.InputTokens), cacheOf(r.Usage()),
		Count(r.OutputTokens), html.If(r.ThinkingTokens != 0, `<small>{} thinking</small>`, Count(r.ThinkingTokens)))
}

// HTML is the call with its answer so far, which is also sent by itself.
func (c OpenCall) HTML(t Times) html.HTML {
	return html.Join(
		html.F(`<article class="open" id="open-{}" data-phase="{}" aria-label="Open call">
<header><span class="pulse" aria-hidden="true"></span><a class="open-what" href="/dashboard/calls/{}">{}</a>`, c.ID, c.Phase, c.ID, c.What()),
		html.F(`<span class="open-side"><span class="phase">{}</span> <time class="elapsed" datetime="{}" data-elapsed>{}</time></span></header>
`, c.Phase, iso(c.Time), t.since(c.Time)),
		html.F(`<div class="growing"><p class="thinking" data-part="thinking"{}>{}</p><p class="text" data-part="text">{}</p></div>
`, html.Attr(c.Text != "", ` hidden`), c.Thinking, c.Text),
		html.F(`<p class="tools" data-part="tools">{}</p>
</article>`, html.Each(c.Tools, chip)))
}

// What is the model and the client of the call, which is also sent by itself.
func (c OpenCall) What() html.HTML {
	return html.F(`<span class="open-model">{}</span>
<span class="open-meta">{}{}{}</span>`, modelOf(&c.Call, "no model"), cmp.Or(c.Client.Name, "a client"),
		html.With(c.Upstream, ` <span aria-hidden="true">→</span> {}`), html.With(c.Account, ` · {}`))
}

// chip is the name of a tool.
func chip(name string) html.HTML { return html.F(`<span class="chip">{}</span>`, name) }
