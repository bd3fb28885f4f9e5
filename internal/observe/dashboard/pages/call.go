package pages

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"perigee"
	"perigee/internal/observe/dashboard/html"
	"perigee/internal/observe/trace"
)

// Call is the page of a call.
type Call struct {
	Call      perigee.Call
	Token     string      // of the form
	Tries     []trace.Try // of its trace
	Request   Conversation
	Answer    Answer
	Files     []TraceFile
	ReplayOf  string
	CanReplay bool
	CanShrink bool
	Search    *Search // for its smallest request; nil if there was none
	Gone      bool    // there is no trace directory
}

// A TraceFile is a file of the trace directory.
type TraceFile struct {
	Name  string
	Bytes int64
}

// Follows reports whether the call was sent again and is still being answered.
func (p Call) Follows() bool { return p.open() && p.ReplayOf != "" }

func (p Call) open() bool { return p.Call.Outcome == perigee.OutcomeOpen }

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
		p.failure(), p.facts(),
		html.F(`<div class="columns">
<div>
{}{}{}{}</div>
<aside aria-label="Details">
{}{}{}{}</aside>
</div>
`, p.tries(), p.request(), p.answer(), p.gone(), p.story(t), p.notes(), p.files(), p.commands()))
}

// gone explains why there is no trace directory. It is empty if there is one.
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

// running is the notice that the call has not ended.
func (p Call) running() html.HTML {
	if p.Follows() {
		return html.F(`<p class="banner info" role="status" id="running"><span class="pulse" aria-hidden="true"></span><span>This replay is running. ` +
			`The page follows it; <a href="/">Now</a> shows its growing answer.</span></p>
`)
	}
	return html.If(p.open(), `<p class="banner info">{}<span>This call is still open. <a href="/">Watch its answer grow</a>, or reload this page when it has ended.</span></p>
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
		what = "Its request became smaller: " + Size(int64(p.Search.Result.Before)) + " are now " + Size(int64(p.Search.Result.Bytes)) + "."
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

// failure is the error of the call, and the advice on it.
func (p Call) failure() html.HTML {
	if p.Call.Error == "" {
		return html.HTML{}
	}
	advice := html.HTML{}
	if p.Call.Class != "" || p.Call.Outcome == perigee.OutcomeCutOff {
		a := AdviceOn(&p.Call, p.CanShrink)
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
	role, price := "Answered by", "list price"
	if c.Usage.Charged.Known {
		price = "reported by the provider"
	}
	if c.FirstByte == 0 && c.Outcome != perigee.OutcomeDone {
		role = "Asked last"
	}
	return html.Join(
		html.F(`<dl class="numbers facts" id="facts">
<div><dt>Total</dt><dd>{}{}</dd></div>
`, Duration(c.Duration), html.If(c.FirstByte != 0, `<small>first byte {}</small>`, Duration(c.FirstByte))),
		html.F(`<div><dt>Tokens in</dt><dd>{}{}</dd></div>
`, Exact(c.Usage.Input), cacheOf(c.Usage)),
		html.F(`<div><dt>Tokens out</dt><dd>{}{}</dd></div>
`, Exact(c.Usage.Output), html.If(c.Usage.Thinking != 0, `<small>{} thinking</small>`, Exact(c.Usage.Thinking))),
		html.F(`<div><dt>Cost</dt><dd>{}<small>{}</small></dd></div>
`, Cost(c.Cost), price),
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

// total returns the duration of the call, or the sum of its attempts if that is longer.
func (p Call) total() time.Duration {
	var sum time.Duration
	for _, a := range p.Call.Attempts {
		sum += a.Took
	}
	if total := max(p.Call.Duration, sum); total > 0 {
		return total
	}
	return time.Millisecond
}

// started returns when each attempt began, since the beginning of the call. Without the times of a
// trace, each one begins when the previous one ends.
func (p Call) started() (list []time.Duration) {
	var at time.Duration
	for i, a := range p.Call.Attempts {
		if len(p.Tries) == len(p.Call.Attempts) {
			at = milliseconds(p.Tries[i].StartedMS)
		}
		list = append(list, at)
		at += a.Took
	}
	return list
}

func milliseconds(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

// tries shows the attempts on the time axis of the call.
func (p Call) tries() html.HTML {
	total, started := p.total(), p.started()
	percentOf := func(d time.Duration) float64 {
		return min(100, max(0, float64(d)/float64(total)*100))
	}
	var rows []html.HTML
	for i, a := range p.Call.Attempts {
		tone, end := "ok", html.F(`<span class="tone ok">answered</span>`)
		if a.Class != "" {
			tone, end = "bad", html.F(`<span class="tone bad">{}</span>`, words(string(a.Class)))
		}
		first := html.HTML{}
		if len(p.Tries) == len(p.Call.Attempts) && p.Tries[i].FirstByteMS > 0 {
			first = html.F(`<rect x="{}%" y="2" width="2" height="12" class="first"/>`,
				Number(percentOf(milliseconds(p.Tries[i].FirstByteMS))))
		}
		x := percentOf(started[i])
		rows = append(rows,
			html.F(`<div class="try"><div class="try-what"><strong>{}</strong>{}{}{}</div>
`, a.Upstream, html.With(a.Account, ` <span class="muted">{}</span>`), small(a.Why),
				html.With(p.unlessShown(a.Error), `<small class="bad">{}</small>`)),
			html.F(`<div class="try-time"><svg aria-hidden="true" focusable="false">`+
				`<rect x="0" y="5" width="100%" height="6" rx="3" class="rail"/>`+
				`<rect x="{}%" y="5" width="{}%" height="6" rx="3" class="{}"/>{}</svg></div>
`, Number(x), Number(min(max(percentOf(a.Took), 0.6), 100-x)), tone, first),
			html.F(`<div class="try-end">{} <span class="num">{}</span></div></div>
`, end, Duration(a.Took)))
	}
	return html.If(len(rows) > 0, `<section aria-labelledby="tries-title">
<h2 id="tries-title">Attempts</h2>
<div class="surface tries" id="tries">
{}</div></section>
`, html.Join(rows...))
}

// unlessShown returns the error of an attempt, or "" if it is the error of the call, which the page
// has already.
func (p Call) unlessShown(text string) string {
	if text == p.Call.Error {
		return ""
	}
	return text
}

func (p Call) request() html.HTML {
	r := &p.Request
	if len(r.Turns) == 0 && r.Raw == "" {
		return html.HTML{}
	}
	turn := func(t Turn) html.HTML {
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
`, html.If(r.Earlier != 0, `<p class="earlier">{}</p>`, Plural(r.Earlier, "earlier message")), html.Each(r.Turns, turn),
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
		`<div class="growth-x" aria-hidden="true"><span>0</span><span>{}</span></div></div>`, a.Line, Duration(p.total())),
		html.With(a.Thinking, `<details class="turn"><summary>Thinking</summary><div class="said thinking">{}</div></details>`),
		html.With(a.Text, `<div class="turn"><div class="said">{}</div></div>`), html.Each(a.Tools, tool),
		html.If(a.Cut, `<p class="earlier">The file has the rest.</p>`))
}

// A step is a moment of the story.
type step struct {
	at                time.Duration
	title, text, tone string
}

// steps returns the steps of the call in order.
func (p Call) steps() []step {
	c := &p.Call
	asked := cmp.Or(c.Client.Name, "A client") + " asked for " + cmp.Or(c.ModelAsked, "no model")
	list := []step{{title: asked, text: Plural(c.BytesIn, "byte") + " of " + string(c.Dialect)}}
	last := strings.TrimSpace(c.Upstream + " " + c.Account)
	started := p.started()
	for i, a := range c.Attempts {
		source := strings.TrimSpace(a.Upstream + " " + a.Account)
		switch {
		case a.Class == "":
		case i == len(c.Attempts)-1 && c.Outcome == perigee.OutcomeCutOff:
			last = source // it answered; the end of the story has the rest
		default:
			list = append(list,
				step{started[i] + a.Took, source + " did not answer", p.unlessShown(a.Error), "bad"})
		}
	}
	if c.FirstByte > 0 {
		from := c.Upstream
		if c.Model != "" {
			from += " with " + c.Model
		}
		list = append(list, step{at: c.FirstByte, title: "First byte from " + from})
	}
	switch c.Outcome {
	case perigee.OutcomeDone:
		list = append(list, step{c.Duration, "Answer complete", c.Finish, "ok"})
	case perigee.OutcomeFailed:
		list = append(list, step{c.Duration, "Failed", "", "bad"})
	case perigee.OutcomeCutOff:
		list = append(list, step{c.Duration, cmp.Or(last, "The answer") + " broke off", "", "bad"})
	case perigee.OutcomeCanceled:
		list = append(list, step{c.Duration, "The client left", "", "warn"})
	}
	slices.SortStableFunc(list, func(a, b step) int { return cmp.Compare(a.at, b.at) })
	return list
}

func (p Call) story(t Times) html.HTML {
	item := func(s step) html.HTML {
		at := t.element(p.Call.Time, t.clock(p.Call.Time))
		if s.at != 0 {
			at = html.F(`{}`, Duration(s.at))
		}
		return html.F(`<li class="{}"><span class="at">{}</span><div><strong>{}</strong>{}</div></li>`,
			s.tone, at, s.title, small(s.text))
	}
	return html.F(`<section aria-labelledby="story-title"><h2 id="story-title">Story</h2>
<ol class="surface story" id="story">{}</ol></section>
`, html.Each(p.steps(), item))
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
		return html.F(`<li><a href="/dashboard/calls/{}/files/{}">{}{}</a><span class="num">{}</span></li>`, p.Call.ID, f.Name, icon("file"), f.Name, Size(f.Bytes))
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
