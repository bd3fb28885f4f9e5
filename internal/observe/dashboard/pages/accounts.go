package pages

import (
	"cmp"
	"time"

	"perigee"
	"perigee/internal/observe/dashboard/html"
	"perigee/internal/observe/dashboard/view"
)

// Accounts lists accounts.
type Accounts struct {
	Token     string // of the forms
	Upstreams []AccountGroup
	Problems  []string
	None      bool
}

// An AccountGroup is the accounts of an upstream.
type AccountGroup struct {
	Upstream string
	Accounts []AccountCard
}

// An AccountCard is an account with its quota.
type AccountCard struct {
	perigee.AccountRow
	Tone, Status string
	Quota        []QuotaBar
	Problem      string
}

// A QuotaBar is what is left of some models that are counted together.
type QuotaBar struct {
	Name      string
	Pool      string
	Remaining float64
	Width     string
	Tone      string
	ResetsAt  time.Time
	RunsOutAt time.Time
	Windows   []perigee.QuotaWindow
}

func (p Accounts) HTML(t Times) html.HTML {
	group := func(g AccountGroup) html.HTML {
		return html.F(`<section aria-label="Upstream {}">
<h2>{}</h2>
<div class="cards">{}</div></section>`, g.Upstream, g.Upstream, html.Each(g.Accounts, func(a AccountCard) html.HTML { return a.card(t, p.Token) }))
	}
	return html.Join(
		html.F(`<div class="head"><h1>Accounts</h1></div>
`),
		html.Each(p.Problems, warning),
		html.If(p.None, `<div class="empty">{}<h2>No accounts</h2><p>Upstreams with an API key need none. Upstreams that use a Google sign-in get `+
			`their accounts with</p><p class="commands">{}{}</p></div>
`, orbit(), command("perigee login"), command("perigee account import FILE")),
		html.Each(p.Upstreams, group))
}

func (a AccountCard) card(t Times, formToken string) html.HTML {
	return html.Join(
		html.F(`<article class="surface account {}" data-account="{}">
<header><div><h3>{}</h3><p class="muted">{}</p></div>`, a.Tone, a.Email, a.Email, cmp.Or(a.ProjectID, "no project yet")),
		html.F(`<p class="account-state"><span class="pill {}">{}</span>{}</p></header>
`, a.Tone, a.Status, html.If(a.Preferred, `<span class="pill accent">used first</span>`)),
		html.With(a.Reason, `<p class="reason">{}</p>
`),
		html.If(len(a.Cooldowns) > 0, `<ul class="cooldowns">{}</ul>
`, html.Each(a.Cooldowns, t.cooldown)),
		a.quota(t),
		html.F(`<footer class="acts">
{}
</footer>
</article>`, a.forms(formToken)))
}

func (t Times) cooldown(c perigee.Cooldown) html.HTML {
	return html.F(`<li><strong>{}</strong>{} back in {}<small>{}</small></li>`, cmp.Or(c.Family, "all models"), pool(c.Pool), t.element(c.Until, t.until(c.Until)), c.Reason)
}

// pool is the name of a quota pool; empty: there is one only.
func pool(name string) html.HTML { return html.With(name, ` <span class="muted">{}</span>`) }

func (a AccountCard) quota(t Times) html.HTML {
	switch {
	case len(a.Quota) > 0:
		return html.F(`<ul class="quota">{}</ul>
`, html.Each(a.Quota, func(b QuotaBar) html.HTML { return b.item(t) }))
	case a.Problem != "":
		return html.F(`<p class="muted none">The quota is not known: {}</p>
`, a.Problem)
	}
	return html.F(`<p class="muted none">The provider names no quota.</p>
`)
}

func (b QuotaBar) item(t Times) html.HTML {
	left := view.Percent(b.Remaining)
	runsOut, resets := html.HTML{}, html.HTML{}
	if !b.RunsOutAt.IsZero() {
		runsOut = html.F(`<span class="tone warn">runs out at {}</span>`, t.element(b.RunsOutAt, t.clock(b.RunsOutAt)))
	}
	if !b.ResetsAt.IsZero() {
		resets = html.F(`resets in {}`, t.element(b.ResetsAt, t.until(b.ResetsAt)))
	}
	window := func(w perigee.QuotaWindow) html.HTML {
		return html.F(`<span>{} {}</span>`, w.Window, view.Percent(w.Remaining))
	}
	return html.Join(
		html.F(`<li>
<div class="quota-head"><span><strong>{}</strong>{}</span><span class="num">{} left</span></div>
`, b.Name, pool(b.Pool), left),
		html.F(`<svg class="meter {}" viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label="{}: {} left">`+
			`<rect width="100" height="6" class="rail"/><rect width="{}" height="6" class="fill"/></svg>
`, b.Tone, b.Name, left, b.Width),
		html.F(`<div class="quota-foot"><span>{}</span><span>{}</span></div>
{}
</li>`, runsOut, resets, html.If(len(b.Windows) > 1, `<div class="quota-foot windows">{}</div>`, html.Each(b.Windows, window))))
}

// forms are what can be done with an account.
func (a AccountCard) forms(formToken string) html.HTML {
	hidden := html.F(`{}<input type="hidden" name="upstream" value="{}">`, tokenField(formToken), a.Upstream)
	if !a.Enabled {
		return html.F(`<form method="post" action="/dashboard/accounts/{}/enable">{}<button class="button" aria-label="Enable {}">Enable</button></form>
`, a.Email, hidden, a.Email)
	}
	return html.Join(
		html.F(`<form method="post" action="/dashboard/accounts/{}/disable">{}<button class="button" aria-label="Disable {}">Disable</button></form>
`, a.Email, hidden, a.Email),
		html.If(!a.Preferred || len(a.Cooldowns) > 0, `<form method="post" action="/dashboard/accounts/{}/use">{}`+
			`<button class="button" title="Chosen before all other accounts. Its cooldowns end." aria-label="Use {} first">Use first</button></form>`,
			a.Email, hidden, a.Email))
}
