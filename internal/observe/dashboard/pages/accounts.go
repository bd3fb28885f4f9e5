package pages

import (
	"cmp"
	"slices"
	"strings"

	"perigee"
	"perigee/internal/observe/dashboard/html"
)

// Accounts lists accounts.
type Accounts struct {
	Token    string // of the forms
	Rows     []perigee.AccountRow
	Quota    perigee.QuotaList
	Problems []string // that do not belong to one account
}

func (p Accounts) HTML(t Times) html.HTML {
	var upstreams []string
	cards := map[string][]html.HTML{}
	for _, a := range p.Rows {
		if cards[a.Upstream] == nil {
			upstreams = append(upstreams, a.Upstream)
		}
		cards[a.Upstream] = append(cards[a.Upstream], p.card(t, &a))
	}
	group := func(upstream string) html.HTML {
		return html.F(`<section aria-label="Upstream {}">
<h2>{}</h2>
<div class="cards">{}</div></section>`, upstream, upstream, html.Join(cards[upstream]...))
	}
	return html.Join(
		html.F(`<div class="head"><h1>Accounts</h1></div>
`),
		html.Each(p.Problems, warning),
		html.If(len(p.Rows) == 0, `<div class="empty">{}<h2>No accounts</h2>`+
			`<p>Upstreams with an API key need none. `+
			`Upstreams that use a Google sign-in get their accounts with</p><p class="commands">{}{}</p></div>
`, orbit(), command("perigee login"), command("perigee account import FILE")),
		html.Each(upstreams, group))
}

func (p Accounts) card(t Times, a *perigee.AccountRow) html.HTML {
	tone, state := accountState(a)
	return html.Join(
		html.F(`<article class="surface account {}" data-account="{}">
<header><div><h3>{}</h3><p class="muted">{}</p></div>`, tone, a.Email, a.Email, cmp.Or(a.ProjectID, "no project yet")),
		html.F(`<p class="account-state"><span class="pill {}">{}</span>{}</p></header>
`, tone, state, html.If(a.Preferred, `<span class="pill accent">used first</span>`)),
		html.With(a.Reason, `<p class="reason">{}</p>
`),
		html.If(len(a.Cooldowns) > 0, `<ul class="cooldowns">{}</ul>
`, html.Each(a.Cooldowns, t.cooldown)),
		p.quota(t, a),
		html.F(`<footer class="acts">
{}
</footer>
</article>`, p.acts(a)))
}

// accountState returns the state of an account as a color and as text.
func accountState(a *perigee.AccountRow) (tone, text string) {
	switch {
	case a.Unopened:
		return "bad", "cannot be decrypted"
	case !perigee.UsableState(a.State):
		return "bad", words(a.State)
	case !a.Enabled:
		return "off", "disabled"
	case len(a.Cooldowns) > 0:
		return "warn", "cooling down"
	}
	return "ok", cmp.Or(a.State, perigee.AccountReady)
}

func (t Times) cooldown(c perigee.Cooldown) html.HTML {
	return html.F(`<li><strong>{}</strong>{} back in {}<small>{}</small></li>`, cmp.Or(c.Family, "all models"), pool(c.Pool), t.element(c.Until, t.until(c.Until)), c.Reason)
}

// pool is the name of a quota pool; empty if there is only one.
func pool(name string) html.HTML { return html.With(name, ` <span class="muted">{}</span>`) }

// quota is the quota of an account. Models that are counted together are one item.
func (p Accounts) quota(t Times, a *perigee.AccountRow) html.HTML {
	var rows []perigee.QuotaRow
	for _, r := range p.Quota.Rows {
		r.Group = cmp.Or(r.Group, r.Model)
		same := func(b perigee.QuotaRow) bool {
			return b.Group == r.Group && b.Pool == r.Pool && b.Remaining == r.Remaining &&
				b.ResetsAt.Equal(r.ResetsAt)
		}
		if r.Account == a.Email && r.Upstream == a.Upstream && !slices.ContainsFunc(rows, same) {
			rows = append(rows, r)
		}
	}
	if len(rows) > 0 {
		slices.SortStableFunc(rows, func(a, b perigee.QuotaRow) int {
			return strings.Compare(a.Group+" "+a.Pool, b.Group+" "+b.Pool)
		})
		return html.F(`<ul class="quota">{}</ul>
`, html.Each(rows, t.quota))
	}
	for _, problem := range slices.Backward(p.Quota.Problems) {
		if problem.Email == a.Email && problem.Upstream == a.Upstream {
			return html.F(`<p class="muted none">The quota is not known: {}</p>
`, problem.Why)
		}
	}
	return html.F(`<p class="muted none">The provider names no quota.</p>
`)
}

func (t Times) quota(b perigee.QuotaRow) html.HTML {
	left, tone := Percent(b.Remaining), "ok"
	switch {
	case b.Remaining <= 0.05:
		tone = "bad"
	case b.Remaining <= 0.25 || !b.RunsOutAt.IsZero():
		tone = "warn"
	}
	runsOut, resets := html.HTML{}, html.HTML{}
	if !b.RunsOutAt.IsZero() {
		runsOut = html.F(`<span class="tone warn">runs out at {}</span>`, t.element(b.RunsOutAt, t.clock(b.RunsOutAt)))
	}
	if !b.ResetsAt.IsZero() {
		resets = html.F(`resets in {}`, t.element(b.ResetsAt, t.until(b.ResetsAt)))
	}
	window := func(w perigee.QuotaWindow) html.HTML {
		return html.F(`<span>{} {}</span>`, w.Window, Percent(w.Remaining))
	}
	return html.Join(
		html.F(`<li>
<div class="quota-head"><span><strong>{}</strong>{}</span><span class="num">{} left</span></div>
`, b.Group, pool(b.Pool), left),
		html.F(`<svg class="meter {}" viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label="{}: {} left">`+
			`<rect width="100" height="6" class="rail"/><rect width="{}" height="6" class="fill"/></svg>
`, tone, b.Group, left, Number(min(1, max(0, b.Remaining))*100)),
		html.F(`<div class="quota-foot"><span>{}</span><span>{}</span></div>
{}
</li>`, runsOut, resets, html.If(len(b.Windows) > 1, `<div class="quota-foot windows">{}</div>`, html.Each(b.Windows, window))))
}

// acts are the forms for the actions on an account.
func (p Accounts) acts(a *perigee.AccountRow) html.HTML {
	hidden := html.F(`{}<input type="hidden" name="upstream" value="{}">`,
		tokenField(p.Token), a.Upstream)
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
