package pages

import (
	"cmp"
	"strings"
	"time"

	"perigee"
	"perigee/internal/observe/dashboard/html"
	"perigee/internal/observe/dashboard/view"
)

// Call tells the story of a call.
type Call struct {
	Call      perigee.Call
	Token     string // of the form
	Steps     []Step
	Tries     []Try
	Scale     string // the whole time, for the axis of Tries
	Request   view.Conversation
	Answer    view.Answer
	Advice    *view.Advice
	Files     []TraceFile
	ReplayOf  string
	CanReplay bool
	CanShrink bool
	Search    *Search // for its smallest request; nil: there was none
	Gone      bool    // there is no trace directory
	Open      bool
}

// A Step is a moment of the story.
type Step struct {
	At          time.Duration
	Title, Text string
	Tone        string
}

// A Try is an attempt, with its place in the time of the call in percent.
type Try struct {
	perigee.Attempt
	X, Width string
	FirstX   string // where its first byte is; empty: unknown
	Tone     string
	Said     string        // its error, unless that is the one of the call
	Ends     time.Duration // from the beginning of the call
}

// A TraceFile is a file of the trace directory.
type TraceFile struct {
	Name  string
	Bytes int64
}

// Follows reports whether the call was sent again and is still being answered.
func (p Call) Follows() bool { return p.Open && p.ReplayOf != "" }

func (p Call) HTML(t Times) html.HTML {
	return html.Join(
		html.F(`
<p class="crumb"><a href="/dashboard/calls">Calls</a> <span aria-hidden="true">/</span> <code>{}</code></p>
<div class="head"><div class="title"><h1>{} {}</h1>
{}</div>
<div class="acts">{}</div></div>
`, p.Call.ID, modelOf(&p.Call, "No model"), status(&p.Call), p.from(t), p.acts()),
		html.If(p.ReplayOf != "", `<p class="banner info">{}<span>This call repeats <a href="/dashboard/calls/{}"><code>{}</code></a>.</span></p>
`, icon("replay"), p.ReplayOf, p.ReplayOf),
		p.running(), p.search(),
		p.trouble(), p.facts(),
		html.F(`<div class="columns">
<div>
{}{}{}{}</div>
<aside aria-label="Details">
{}{}{}{}</aside>
</div>
`, p.tries(), p.request(), p.answer(), p.gone(), p.story(t), p.notes(), p.files(), p.commands()))
}

// gone says why there is no trace directory.
func (p Call) gone() html.HTML {
	if p.Gone && p.Call.ReplayOf != "" {
		return html.F(`<div class="empty slim"><p>This call of <code>trace replay</code> or <code>trace shrink</code> has no trace. ` +
			`The trial calls of <code>shrink</code> have none, so that they do not push out those of clients.</p></div>
`)
	}
	return html.If(p.Gone, `<div class="empty slim"><p>The trace of this call is not on disk. Traces are kept up to `+
		`<code>traces.keep</code>, while the disk has room; on a busy machine, some calls are not traced. The record of the call stays.</p></div>
`)
}

// running says that the call has not ended.
func (p Call) running() html.HTML {
	if p.Follows() {
		return html.F(`<p class="banner info" role="status" id="running"><span class="pulse" aria-hidden="true"></span><span>This replay is running. ` +
			`The page follows it; <a href="/">Now</a> shows its growing answer.</span></p>
`)
	}
	return html.If(p.Open, `<p class="banner info">{}<span>This call is still open. <a href="/">Watch its answer grow</a>, or reload this page when it has ended.</span></p>
`, icon("now"))
}

// search leads to the search for the smallest request.
func (p Call) search() html.HTML {
	if p.Search == nil {
		return html.HTML{}
	}
	what := "The search for its smallest request found nothing."
	switch {
	case p.Search.Running:
		what = "Its smallest request is being looked for."
	case p.Search.Problem == "":
		what = "Its request became smaller: " + view.Size(int64(p.Search.Result.Before)) + " are now " + view.Size(int64(p.Search.Result.Bytes)) + "."
	}
	return html.F(`<p class="banner info" id="search">{}<span>{} <a href="/dashboard/calls/{}/shrink">Show</a></span></p>
`, icon("shrink"), what, p.Call.ID)
}

// acts are the buttons.
func (p Call) acts() html.HTML {
	return html.Join(
		html.If(p.CanShrink, `<form method="post" action="/dashboard/calls/{}/shrink" id="shrink" data-busy="Shrinking">{}`+
			`<button class="button" title="Looks for the smallest request that fails in the same way. It makes many calls, which cost tokens.">{}`+
			`<span>Shrink</span></button></form>`, p.Call.ID, tokenField(p.Token), icon("shrink")),
		html.If(p.CanReplay, `<form method="post" action="/dashboard/calls/{}/replay" id="replay" data-busy="Sending">{}`+
			`<button class="button" title="Sends the request again. It costs tokens.">{}<span>Send again</span></button></form>`,
			p.Call.ID, tokenField(p.Token), icon("replay")))
}

// trouble is the error of the call, and what to do about it.
func (p Call) trouble() html.HTML {
	if p.Call.Error == "" {
		return html.HTML{}
	}
	advice := html.HTML{}
	if a := p.Advice; a != nil {
		help := html.HTML{}
		if a.Command != "" {
			help = command(a.Command)
		}
		advice = html.F(`<p>{} {}</p>
<p class="commands">{}{}</p>`, a.Meaning, a.Next, help, html.If(a.Page != "", `<a class="more" href="{}">{}{}</a>`, a.Page, a.Link, icon("next")))
	}
	return html.F(`<section class="trouble" aria-labelledby="error-title" id="error">
<h2 id="error-title">{}{}</h2>
<p class="said">{}</p>
{}
</section>
`, icon("warn"), cmp.Or(words(string(p.Call.Class)), "error"), p.Call.Error, advice)
}

func (p Call) facts() html.HTML {
	c := &p.Call
	role := "Answered by"
	if c.FirstByte == 0 && c.Outcome != perigee.OutcomeDone {
		role = "Asked last"
	}
	return html.Join(
		html.F(`<dl class="numbers facts" id="facts">
<div><dt>Total</dt><dd>{}{}</dd></div>
`, view.Duration(c.Duration), html.If(c.FirstByte != 0, `<small>first byte {}</small>`, view.Duration(c.FirstByte))),
		html.F(`<div><dt>Tokens in</dt><dd>{}{}</dd></div>
`, view.Exact(c.Usage.Input), html.If(c.Usage.Cached != 0, `<small>{} cached</small>`, view.Exact(c.Usage.Cached))),
		html.F(`<div><dt>Tokens out</dt><dd>{}{}</dd></div>
`, view.Exact(c.Usage.Output), html.If(c.Usage.Thinking != 0, `<small>{} thinking</small>`, view.Exact(c.Usage.Thinking))),
		html.F(`<div><dt>Cost</dt><dd>{}<small>list price</small></dd></div>
`, view.Cost(c.Cost)),
		html.F(`<div><dt>{}</dt><dd class="words" title="{}">{}{}</dd></div>
</dl>
`, role, strings.TrimSpace(c.Upstream+" "+c.Account), cmp.Or(c.Upstream, "nothing"), small(c.Account)))
}

// from is the line under the title: the client, its key, how it asked, and when.
func (p Call) from(t Times) html.HTML {
	c := &p.Call
	client := strings.TrimSpace(cmp.Or(c.Client.Name, "unknown client") + " " + c.Client.Version)
	return html.F(`<p class="from" id="from"><span title="{}">{}</span>{}<span>{}{}</span>{}</p>
`, client, client, html.If(c.Client.Key != "", `<span title="key {}">key {}</span>`, c.Client.Key, c.Client.Key),
		c.Dialect, html.If(c.Stream, `, streamed`), t.element(c.Time, t.clock(c.Time)))
}

func (p Call) tries() html.HTML {
	return html.If(len(p.Tries) > 0, `<section aria-labelledby="tries-title">
<h2 id="tries-title">Attempts</h2>
<div class="surface tries" id="tries">
{}</div></section>
`, html.Each(p.Tries, Try.row))
}

func (t Try) row() html.HTML {
	end := html.F(`<span class="tone ok">answered</span>`)
	if t.Class != "" {
		end = html.F(`<span class="tone bad">{}</span>`, words(string(t.Class)))
	}
	return html.Join(
		html.F(`<div class="try"><div class="try-what"><strong>{}</strong>{}{}{}</div>
`, t.Upstream, html.With(t.Account, ` <span class="muted">{}</span>`), small(t.Why), html.With(t.Said, `<small class="bad">{}</small>`)),
		html.F(`<div class="try-time"><svg aria-hidden="true" focusable="false"><rect x="0" y="5" width="100%" height="6" rx="3" class="rail"/>`+
			`<rect x="{}" y="5" width="{}" height="6" rx="3" class="{}"/>{}</svg></div>
`, t.X, t.Width, t.Tone, html.With(t.FirstX, `<rect x="{}" y="2" width="2" height="12" class="first"/>`)),
		html.F(`<div class="try-end">{} <span class="num">{}</span></div></div>
`, end, view.Duration(t.Took)))
}

func (p Call) request() html.HTML {
	r := &p.Request
	if len(r.Turns) == 0 && r.Raw == "" {
		return html.HTML{}
	}
	turn := func(t view.Turn) html.HTML {
		return html.F(`<div class="turn"><h3>{}</h3><div class="said">{}{}</div></div>`, t.Role, t.Text, html.If(t.Cut, `<small>The file has the rest.</small>`))
	}
	return html.F(`<section aria-labelledby="request-title">
<h2 id="request-title">Request</h2>
<div class="surface talk" id="request">
{}
{}
{}
{}
</div></section>
`, html.If(r.Earlier != 0, `<p class="earlier">{}</p>`, view.Plural(r.Earlier, "earlier message")), html.Each(r.Turns, turn),
		html.With(r.Raw, `<pre class="raw">{}</pre>`),
		html.If(len(r.Tools) > 0, `<p class="tools"><span class="muted">Tools</span> {}</p>`, html.Each(r.Tools, chip)))
}

func (p Call) answer() html.HTML {
	a := &p.Answer
	if a.Text == "" && a.Thinking == "" && len(a.Tools) == 0 {
		return html.HTML{}
	}
	tool := func(text string) html.HTML {
		return html.F(`<div class="turn"><h3>calls</h3><div class="said"><code>{}</code></div></div>`, text)
	}
	return html.F(`<section aria-labelledby="answer-title">
<h2 id="answer-title">Answer</h2>
<div class="surface talk" id="answer">
{}
{}
{}
{}
{}
</div></section>
`, html.If(a.Line != "", `<div class="growth" role="img" aria-label="How the answer grew over time">`+
		`<svg viewBox="0 0 1000 100" preserveAspectRatio="none" aria-hidden="true" focusable="false"><polyline points="{}"/></svg>`+
		`<div class="growth-x" aria-hidden="true"><span>0</span><span>{}</span></div></div>`, a.Line, p.Scale),
		html.With(a.Thinking, `<details class="turn"><summary>Thinking</summary><div class="said thinking">{}</div></details>`),
		html.With(a.Text, `<div class="turn"><div class="said">{}</div></div>`), html.Each(a.Tools, tool),
		html.If(a.Cut, `<p class="earlier">The file has the rest.</p>`))
}

func (p Call) story(t Times) html.HTML {
	step := func(s Step) html.HTML {
		at := t.element(p.Call.Time, t.clock(p.Call.Time))
		if s.At != 0 {
			at = html.F(`{}`, view.Duration(s.At))
		}
		return html.F(`<li class="{}"><span class="at">{}</span><div><strong>{}</strong>{}</div></li>`, s.Tone, at, s.Title, small(s.Text))
	}
	return html.F(`<section aria-labelledby="story-title"><h2 id="story-title">Story</h2>
<ol class="surface story" id="story">{}</ol></section>
`, html.Each(p.Steps, step))
}

func (p Call) notes() html.HTML {
	return html.If(len(p.Call.Notes) > 0, `<section aria-labelledby="notes-title"><h2 id="notes-title">Notes</h2>
<ul class="surface states" id="notes">{}</ul></section>
`, html.Each(p.Call.Notes, func(note string) html.HTML {
		return html.F(`<li><span class="dot warn" aria-hidden="true"></span><div>{}</div></li>`, note)
	}))
}

func (p Call) files() html.HTML {
	return html.If(len(p.Files) > 0, `<section aria-labelledby="files-title"><h2 id="files-title">Files</h2>
<ul class="surface files" id="files">{}</ul></section>
`, html.Each(p.Files, func(f TraceFile) html.HTML {
		return html.F(`<li><a href="/dashboard/calls/{}/files/{}">{}{}</a><span class="num">{}</span></li>`, p.Call.ID, f.Name, icon("file"), f.Name, view.Size(f.Bytes))
	}))
}

func (p Call) commands() html.HTML {
	list := []string{"perigee trace show " + p.Call.ID}
	if p.CanReplay {
		list = append(list, "perigee trace replay "+p.Call.ID+" --diff")
	}
	if p.CanShrink {
		list = append(list, "perigee trace shrink "+p.Call.ID)
	}
	if !p.Gone {
		list = append(list, "perigee trace bundle "+p.Call.ID)
	}
	return html.F(`<section aria-labelledby="commands-title"><h2 id="commands-title">In a terminal</h2>
<p class="commands stack">{}</p></section>
`, html.Each(list, command))
}
