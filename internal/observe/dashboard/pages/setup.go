package pages

import (
	"perigee/internal/observe/dashboard/html"
)

// Setup is the page about setting up clients.
type Setup struct {
	Base    string
	Clients []Client
	Keys    []string // their names; empty if clients need no key
}

// A Client is a program that can use perigee, and how.
type Client struct {
	Name     string // as perigee connect calls it: claude-code
	Title    string // Claude Code
	Program  string // claude; empty if perigee run cannot start it
	Note     string
	Settings []Fact // environment variables, or lines of a settings file
	NoFile   bool   // perigee connect has nothing to write for it
	Here     bool   // it is installed on this machine, or has settings of perigee
	State    string // whether it uses perigee; empty if unknown
	Tone     string // of State
}

func (p Setup) HTML(Times) html.HTML {
	return html.Join(
		html.F(`<div class="head"><h1>Set up a client</h1></div>
<p class="lead">A client needs perigee's address{}. <code>perigee run</code> sets both for one start; <code>perigee connect</code> writes `+
			`the client's settings, keeps a backup, and can undo it.</p>
`, html.If(len(p.Keys) > 0, ` and one of your keys`)),
		html.F(`<dl class="surface pairs wide" id="address"><div><dt>Base URL</dt><dd>{}</dd></div><div><dt>OpenAI base URL</dt><dd>{}</dd></div>`+
			`<div><dt>Key</dt><dd>{}</dd></div></dl>
`, command(p.Base), command(p.Base+"/v1"), p.key()),
		p.clients(),
		html.If(len(p.Clients) == 0, `<div class="empty slim"><p><code>perigee connect</code> lists the clients.</p></div>`))
}

// clients lists the clients, first the ones on this machine.
func (p Setup) clients() html.HTML {
	var here, others []Client
	for _, c := range p.Clients {
		if c.Here {
			here = append(here, c)
		} else {
			others = append(others, c)
		}
	}
	title := "Clients"
	if len(here) > 0 {
		title = "Other clients"
	}
	return html.Join(
		html.If(len(here) > 0, `<section aria-labelledby="here-title"><h2 id="here-title">On the machine where perigee runs</h2>
<div class="cards clients" id="here">{}</div></section>
`, html.Each(here, Client.card)),
		html.If(len(others) > 0, `<section aria-labelledby="clients-title"><h2 id="clients-title">{}</h2>
<div class="cards clients" id="clients">{}</div></section>
`, title, html.Each(others, Client.card)))
}

func (p Setup) key() html.HTML {
	if len(p.Keys) == 0 {
		return html.F(`none needed; clients that insist can send <code>perigee</code>`)
	}
	first := true
	return html.F(`one of {}`, html.Each(p.Keys, func(name string) html.HTML {
		comma := html.If(!first, `, `)
		first = false
		return html.F(`{}<code>{}</code>`, comma, name)
	}))
}

func (c Client) card() html.HTML {
	setting := func(s Fact) html.HTML {
		return html.F(`<figure><figcaption>{}</figcaption><div class="snippet"><pre tabindex="0">{}</pre>`+
			`<button type="button" class="copy" data-copy="{}" hidden aria-label="Copy {}">{}</button></div></figure>`, s.Name, s.Value, s.Value, s.Name, icon("copy"))
	}
	return html.Join(
		html.F(`<article class="surface client" id="client-{}"><h3>{} {}</h3>
{}
<dl>`, c.Name, c.Title, html.If(c.State != "", `<span class="pill {}">{}</span>`, c.Tone, c.State), html.With(c.Note, `<p class="muted">{}</p>`)),
		html.If(c.Program != "", `<div><dt>Start it</dt><dd>{}</dd></div>
`, command("perigee run "+c.Name)),
		html.If(!c.NoFile, `<div><dt>Write its settings</dt><dd>{}</dd></div>
`, command("perigee connect "+c.Name)),
		html.If(len(c.Settings) > 0, `<div><dt class="hidden">By hand</dt><dd><details><summary>By hand</summary>{}</details></dd></div>`, html.Each(c.Settings, setting)),
		html.F(`</dl></article>
`))
}
