package pages

import (
	"cmp"
	"time"

	"perigee"
	"perigee/internal/observe/dashboard/html"
)

// System is the page of the state of the daemon and its parts.
type System struct {
	Status       perigee.DaemonStatus
	Started      time.Time
	GoVersion    string
	Platform     string
	Memory       int64 // bytes in use
	Held         int64 // bytes that the system has given
	Goroutines   int
	Open         int
	Unready      []string
	Langservers  []perigee.LangserverRow
	Windows      []Window
	WindowsError string
	Store        perigee.StoreReport
	StoreError   string
	CA           []Fact
	Warnings     []Warning
}

// A Window is an editor window that perigee can ask.
type Window struct {
	Name, Version, State string
	Workspace            []string
}

// A Warning is a line of the log.
type Warning struct {
	Time        time.Time
	Level, Text string
	Call        string // the ID of the call that it is about; empty if there is none
}

func (p System) HTML(t Times) html.HTML {
	return html.Join(
		html.F(`<div class="head"><h1>System</h1></div>
`),
		html.Each(p.Unready, unready), p.numbers(t),
		html.F(`<div class="columns even"><div>
{}
{}
{}
{}
</div><div>
{}
{}
</div></div>
`, p.daemon(t), p.authority(), p.langservers(), p.windows(), p.store(), p.warnings(t)))
}

func (p System) numbers(t Times) html.HTML {
	running := "–"
	if !p.Started.IsZero() {
		running = t.since(p.Started)
	}
	store := html.F(`–`)
	if p.Store.Engine != "" {
		store = html.F(`{}<small>{}</small>`, Size(p.Store.Bytes), p.Store.Engine)
	}
	return html.Join(
		html.F(`<dl class="numbers" id="state">
<div><dt>Running for</dt><dd>{}<small>{}</small></dd></div>
`, running, p.Status.Version),
		html.F(`<div><dt>Memory</dt><dd>{}<small>{} in use</small></dd></div>
`, Size(p.Held), Size(p.Memory)),
		html.F(`<div><dt>Open calls</dt><dd>{}<small>{} goroutines</small></dd></div>
<div><dt>Database</dt><dd>{}</dd></div>
</dl>
`, p.Open, p.Goroutines, store))
}

func (p System) daemon(t Times) html.HTML {
	return html.F(`<section aria-labelledby="daemon-title"><h2 id="daemon-title">Daemon</h2><dl class="surface pairs" id="daemon">
<div><dt>Address</dt><dd><code>{}</code></dd></div>
<div><dt>Configuration</dt><dd><code>{}</code></dd></div>
<div><dt>Data directory</dt><dd><code>{}</code></dd></div>
<div><dt>Build</dt><dd>{}, {}</dd></div>
{}</dl></section>`, p.Status.Listen, cmp.Or(p.Status.Configuration, "none"), p.Status.DataDir, p.GoVersion, p.Platform,
		html.If(!p.Started.IsZero(), `<div><dt>Started</dt><dd><time datetime="{}">{}</time></dd></div>`, iso(p.Started), t.stamp(p.Started)))
}

func (p System) authority() html.HTML {
	return html.If(len(p.CA) > 0, `<section aria-labelledby="ca-title"><h2 id="ca-title">Certificate authority</h2><dl class="surface pairs" id="ca">{}</dl></section>`,
		html.Each(p.CA, func(f Fact) html.HTML { return html.F(`<div><dt>{}</dt><dd>{}</dd></div>`, f.Name, f.Value) }))
}

func (p System) langservers() html.HTML {
	list := html.F(`<div class="empty slim"><p>None. An upstream of kind <code>langserver</code> starts one.</p></div>`)
	if len(p.Langservers) > 0 {
		list = html.F(`<ul class="surface states" id="langservers">{}</ul>`, html.Each(p.Langservers, langserver))
	}
	return html.F(`<section aria-labelledby="ls-title"><h2 id="ls-title">Language servers</h2>
{}</section>`, list)
}

// langserverTone is the colour of a state of a language server.
func langserverTone(state string) string {
	switch state {
	case "ready":
		return "ok"
	case "failed":
		return "bad"
	}
	return "warn"
}

func langserver(r perigee.LangserverRow) html.HTML {
	details := html.Join(
		html.With(r.Profile, `{} `), html.F(`{}`, r.Version), html.If(r.PID != 0, `, pid {}`, r.PID), html.If(r.Memory != 0, `, {}`, Size(r.Memory)),
		html.If(r.Restarts != 0, `, {} restarts`, r.Restarts), html.With(r.Account, `, {}`))
	return stateItem(langserverTone(r.State), html.F(`{}`, r.Upstream), r.State,
		html.F(`<small>{}</small>{}`, details, small(r.LastExit)))
}

func (p System) windows() html.HTML {
	list := html.F(`<div class="empty slim"><p>No window with perigee's extension is open.</p></div>`)
	if len(p.Windows) > 0 {
		list = html.F(`<ul class="surface states" id="windows">{}</ul>`, html.Each(p.Windows, Window.item))
	}
	return html.F(`<section aria-labelledby="windows-title"><h2 id="windows-title">Editor windows</h2>
{}{}</section>`, warning(p.WindowsError), list)
}

func (w Window) item() html.HTML {
	tone := "warn"
	if w.State == "ready" || w.State == "busy" {
		tone = "ok"
	}
	folder := func(path string) html.HTML { return html.F(`<small><code>{}</code></small>`, path) }
	return stateItem(tone, html.F(`{}`, w.Name), w.State,
		html.F(`<small>{}</small>{}`, w.Version, html.Each(w.Workspace, folder)))
}

func (p System) store() html.HTML {
	row := func(r perigee.StoreRow) html.HTML {
		size := "–"
		if r.Bytes != 0 {
			size = Size(r.Bytes)
		}
		return html.F(`<tr><th scope="row">{}</th><td class="c-num">{}</td><td class="c-num">{}</td></tr>`, r.What, Exact(r.Count), size)
	}
	return html.F(`<section aria-labelledby="store-title"><h2 id="store-title">Store</h2>
{}{}</section>`, warning(p.StoreError), html.If(len(p.Store.Rows) > 0, `<div class="surface scroll"><table class="plain" id="store">`+
		`<caption class="hidden">What is stored</caption><thead><tr><th scope="col">What</th><th scope="col" class="c-num">Count</th>`+
		`<th scope="col" class="c-num">Size</th></tr></thead><tbody>{}</tbody></table></div>`, html.Each(p.Store.Rows, row)))
}

func (p System) warnings(t Times) html.HTML {
	list := html.F(`<div class="empty slim"><p>No warning since the start.</p></div>`)
	if len(p.Warnings) > 0 {
		list = html.F(`<ul class="surface log" id="log">{}</ul>`, html.Each(p.Warnings, func(w Warning) html.HTML {
			text := html.F(`{}`, w.Text)
			if w.Call != "" {
				text = html.F(`<a href="/dashboard/calls/{}">{}</a>`, w.Call, w.Text)
			}
			return html.F(`<li class="{}">{}<span>{}</span></li>`, w.Level, t.element(w.Time, t.clock(w.Time)), text)
		}))
	}
	return html.F(`<section aria-labelledby="log-title"><h2 id="log-title">Last warnings</h2>
{}</section>`, list)
}
