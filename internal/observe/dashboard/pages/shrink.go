package pages

import (
	"cmp"
	"time"

	"perigee"
	"perigee/internal/observe/dashboard/html"
	"perigee/internal/observe/trace/replay"
)

// A Search is the search for the smallest request that fails as a call did.
type Search struct {
	Call     string // its ID
	Began    time.Time
	Running  bool
	Progress replay.Progress
	Problem  string // why nothing was found; empty if Result has the result
	Hint     string
	Result   replay.Shrunk
	Cut      bool // Result has only the beginning of the request
}

// Shrink is the page about a Search. It is loaded again until the search has ended.
type Shrink struct {
	Search
	Asked perigee.Call // the call that the search is for
	Token string       // of the form
}

// Follows reports whether there is more to come.
func (p Shrink) Follows() bool { return p.Running }

func (p Shrink) HTML(t Times) html.HTML {
	again := html.If(!p.Running, `<form method="post" action="/dashboard/calls/{}/shrink" data-busy="Shrinking">{}<button class="button">{}<span>Shrink again</span></button></form>`,
		p.Call, tokenField(p.Token), icon("shrink"))
	return html.Join(
		html.F(`<p class="crumb"><a href="/dashboard/calls">Calls</a> <span aria-hidden="true">/</span> <a href="/dashboard/calls/{}"><code>{}</code></a>`+
			` <span aria-hidden="true">/</span> Shrink</p>
<div class="head"><h1>Smallest request {}</h1><div class="acts">{}</div></div>
<p class="lead">The smallest request that fails as this call did: {}</p>
`, p.Call, p.Call, status(&p.Asked), again, cmp.Or(p.Asked.Error, words(string(p.Asked.Class)))),
		p.state(t))
}

// state is the progress or the result of the search.
func (p Shrink) state(t Times) html.HTML {
	switch {
	case p.Running:
		return html.F(`<div class="surface pad working" role="status" id="searching"><p><span class="pulse" aria-hidden="true"></span><strong>Searching</strong> `+
			`<span class="muted">for {}, two minutes at most. This page follows it.</span></p>
{}{}</div>
`, t.since(p.Began), html.If(p.Progress.Calls == 0, `<p>Sending the request as it was, to see whether it still fails.</p>`),
			html.If(p.Progress.Calls > 0, `<p>{} so far. The smallest request that still fails has {}.</p>`, Plural(int64(p.Progress.Calls), "call"), Size(int64(p.Progress.Bytes))))
	case p.Problem != "":
		return html.F(`<div class="surface pad" role="alert" id="problem"><p>{}</p>{}</div>
`, p.Problem, html.With(p.Hint, `<p class="muted">{}</p>`))
	}
	r := &p.Result
	end := "nothing more can be left out"
	switch {
	case r.Stopped != "":
		end = "stopped early"
	case !r.Whole:
		end = "calls or time were used up"
	}
	return html.Join(
		warning(r.Stopped),
		html.F(`<dl class="numbers" id="shrunk">
<div><dt>Before</dt><dd>{}<small>bytes</small></dd></div>
<div><dt>Now</dt><dd>{}<small>bytes</small></dd></div>
<div><dt>Calls made</dt><dd>{}<small>{}</small></dd></div>
</dl>
`, Exact(int64(r.Before)), Exact(int64(r.Bytes)), Exact(int64(r.Calls)), end),
		html.F(`<section aria-labelledby="request-title"><h2 id="request-title">Request</h2>
<div class="snippet"><pre class="raw" tabindex="0" id="request">{}</pre>{}</div>{}</section>
`, r.Request, html.If(!p.Cut, `<button type="button" class="copy" data-copy="{}" hidden aria-label="Copy the request">{}</button>`, r.Request, icon("copy")),
			html.If(p.Cut, `<p class="after">This is its beginning. The whole request: {}</p>`, command("perigee trace shrink "+p.Call+" --out request.json"))))
}
