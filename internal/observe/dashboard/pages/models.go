package pages

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"perigee"
	"perigee/internal/observe/dashboard/html"
	"perigee/internal/store/config"
)

// Models is the page of the models and their routing.
type Models struct {
	Models   []ModelAnswer
	Problems []string
	Routing  config.Models
	Order    []string // of the upstreams, where no route matches
}

// A ModelAnswer is a model, and which upstream would answer a call for it now.
type ModelAnswer struct {
	perigee.ModelRow
	Answers string // the upstream; empty if none would
	Why     string
}

// A Fact is a name and a value, for lists of them.
type Fact struct{ Name, Value string }

func (p Models) HTML(Times) html.HTML {
	return html.Join(
		html.F(`<div class="head"><h1>Models</h1></div>
`),
		html.Each(p.Problems, warning),
		html.F(`<div class="columns">
<div><section aria-labelledby="models-title"><h2 id="models-title">What can be asked <span class="tally">{}</span></h2>
{}</section></div>
<aside aria-label="Routing">
{}
{}
{}
</aside></div>
`, len(p.Models), modelTable(p.Models), p.routes(), p.aliases(), p.defaults()))
}

func modelTable(models []ModelAnswer) html.HTML {
	if len(models) == 0 {
		return html.F(`<div class="empty slim"><p>No upstream has said what it has.</p></div>`)
	}
	return html.F(`<div class="surface scroll"><table class="plain" id="models"><caption class="hidden">Models</caption><thead><tr><th scope="col">Model</th>`+
		`<th scope="col">Upstream</th><th scope="col" class="c-num">Context</th><th scope="col" class="c-num">Output</th><th scope="col">Thinking</th>`+
		`<th scope="col">Answers now</th></tr></thead>
<tbody>{}</tbody></table></div>
`, html.Each(models, modelRow))
}

func modelRow(m ModelAnswer) html.HTML {
	limit := func(tokens int64) string {
		if tokens == 0 {
			return "–"
		}
		return Count(tokens)
	}
	thinking := html.F(`yes`)
	if !m.Thinking {
		thinking = html.F(`<span class="none">–</span>`)
	}
	return html.Join(
		html.F(`<tr><th scope="row"><code>{}</code>{}{}</th><td>{}</td>`, m.ID, html.If(m.Default, ` <span class="pill accent">default</span>`),
			html.With(m.AliasOf, `<small>alias of {}</small>`), upstreamLink(m.Upstream)),
		html.F(`<td class="c-num">{}</td><td class="c-num">{}</td><td>{}</td><td>{}{}</td></tr>`, limit(m.Context), limit(m.Output), thinking,
			upstreamLink(m.Answers), small(m.Why)))
}

func (p Models) routes() html.HTML {
	routes, catchAll := p.Routing.Routes, false
	route := func(r config.Route) html.HTML {
		catchAll = catchAll || r.Match == "*" && r.When == (config.Condition{})
		return html.F(`<li><code>{}</code>{}<span aria-label="to">→</span><span>{}</span></li>`, r.Match,
			html.With(r.When.String(), `<small>when {}</small>`), perigee.RouteCondition{To: r.To, Model: r.Model}.Destination())
	}
	rest := "everything else"
	if len(routes) == 0 {
		rest = "every model"
	}
	list := html.Each(routes, route)
	return html.F(`<section aria-labelledby="routes-title"><h2 id="routes-title">Routes</h2>
<ol class="surface routes" id="routes">{}{}</ol></section>`, list,
		html.If(!catchAll, `<li class="rest"><span>{}</span><span aria-label="to">→</span><span>{}</span></li>`,
			rest, cmp.Or(strings.Join(p.Order, ", "), "the simulator")))
}

func (p Models) aliases() html.HTML {
	list := html.F(`<div class="empty slim"><p>None. <code>models.aliases</code> gives a model further names.</p></div>`)
	if aliases := p.Routing.Aliases; len(aliases) > 0 {
		alias := func(name string) html.HTML {
			return html.F(`<li><code>{}</code><span aria-label="to">→</span><code>{}</code></li>`,
				name, aliases[name])
		}
		list = html.F(`<ul class="surface routes" id="aliases">{}</ul>`,
			html.Each(slices.Sorted(maps.Keys(aliases)), alias))
	}
	return html.F(`<section aria-labelledby="aliases-title"><h2 id="aliases-title">Aliases</h2>
{}</section>`, list)
}

func (p Models) defaults() html.HTML {
	model := func(name, otherwise string) html.HTML {
		if name == "" {
			return html.F(`{}`, otherwise)
		}
		return html.F(`<code>{}</code>`, name)
	}
	return html.F(`<section aria-labelledby="defaults-title"><h2 id="defaults-title">Defaults</h2>
<dl class="surface pairs"><div><dt>No model named</dt><dd>{}</dd></div><div><dt>Unknown model</dt><dd>{}</dd></div></dl></section>`,
		model(p.Routing.Default, "400"), model(p.Routing.Fallback, "404"))
}
