package pages

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"perigee"
	"perigee/internal/observe/dashboard/html"
)

// Upstreams is the page of all upstreams.
type Upstreams struct {
	List []Upstream
	Cut  bool // there were more calls than were looked at
}

// Upstream is the page of one upstream.
type Upstream struct {
	UpstreamState
	Keys    []perigee.KeyProblem // API keys that are not used now
	Hour    Activity
	Models  []ModelAnswer // only on its own page
	Problem string        // why its models are not listed
	Cut     bool          // as in Upstreams
}

// An UpstreamState is an upstream and whether it can answer calls.
type UpstreamState struct {
	Name, Kind string
	Unready    string // why it cannot answer; empty if it can, as far as is known without a call
}

// An Activity is the last hour of an upstream. Calls that are open do not count.
type Activity struct {
	Usage        perigee.UsageRow // of the calls that it answered, or was the last one to fail
	First, Total Quantiles        // of the calls that had a first byte
	Errors       []ErrorCount     // of all attempts, those with the most first
	FirstByte    Chart
	Durations    Chart
}

// Quantiles are the median and the 95th percentile of durations. Both are 0 if there were none.
type Quantiles struct{ P50, P95 time.Duration }

// An ErrorCount is how many attempts failed with a class of errors, and the newest of them.
type ErrorCount struct {
	Class  perigee.Class
	Count  int64
	Newest perigee.Call
	Text   string // the error of the attempt in Newest
}

const (
	activityTime  = time.Hour
	activityStep  = 2 * time.Minute
	activitySteps = int(activityTime / activityStep)
)

// LastHour returns the activity of an upstream. calls are the newest first.
func LastHour(calls []perigee.Call, upstream string, now time.Time, zone *time.Location) (a Activity) {
	begin := now.Truncate(activityStep).Add(-time.Duration(activitySteps-1) * activityStep)
	first, total := make([][]time.Duration, activitySteps), make([][]time.Duration, activitySteps)
	errors := map[perigee.Class]*ErrorCount{}
	for i := range calls {
		c := &calls[i]
		step := int(c.Time.Sub(begin) / activityStep)
		if c.Time.Before(begin) || step >= activitySteps || c.Outcome == perigee.OutcomeOpen || c.ReplayOf != "" {
			continue
		}
		countErrors(errors, c, upstream)
		if c.Upstream != upstream {
			continue
		}
		a.Usage.Add(usageOf(c))
		if c.FirstByte > 0 {
			first[step], total[step] = append(first[step], c.FirstByte), append(total[step], c.Duration)
		}
	}
	for _, e := range slices.SortedFunc(maps.Values(errors), func(a, b *ErrorCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Class, b.Class))
	}) {
		a.Errors = append(a.Errors, *e)
	}
	a.First, a.Total = quantilesOf(slices.Concat(first...)), quantilesOf(slices.Concat(total...))
	a.FirstByte = quantileChart("Time to the first byte in the last hour, median and 95th percentile", first, begin.In(zone))
	a.Durations = quantileChart("Duration of calls in the last hour, median and 95th percentile", total, begin.In(zone))
	return a
}

// countErrors adds the failed attempts of a call at an upstream. A call that was cut off after it had
// begun to answer has failed, although its attempt has not.
func countErrors(errors map[perigee.Class]*ErrorCount, c *perigee.Call, upstream string) {
	count := func(class perigee.Class, text string) {
		e := errors[class]
		if e == nil {
			e = &ErrorCount{Class: class, Newest: *c, Text: text}
			errors[class] = e
		}
		e.Count++
	}
	counted := false
	for _, attempt := range c.Attempts {
		if attempt.Upstream == upstream && attempt.Class != "" {
			count(attempt.Class, attempt.Error)
			counted = counted || attempt.Class == c.Class
		}
	}
	if c.Upstream == upstream && failed(c) && !counted {
		count(c.Class, c.Error)
	}
}

func quantilesOf(times []time.Duration) (q Quantiles) {
	q.P50, q.P95 = quantiles(times)
	return q
}

// quantileChart returns a chart of the quantiles of each step.
func quantileChart(label string, steps [][]time.Duration, begin time.Time) Chart {
	c := Chart{Label: label, Axis: func(f float64) string { return Duration(time.Duration(f * float64(time.Second))) }}
	for i, times := range steps {
		at := begin.Add(time.Duration(i) * activityStep).Format("15:04")
		q := quantilesOf(times)
		title := at + ": no call"
		if len(times) > 0 {
			title = at + ": " + Plural(int64(len(times)), "call") + ", half within " + Duration(q.P50) + ", 95 % within " + Duration(q.P95)
		}
		c.add(at, title, Part{"s-p50", q.P50.Seconds()}, Part{"s-p95", (q.P95 - q.P50).Seconds()})
	}
	return c
}

func (p Upstreams) HTML(t Times) html.HTML {
	row := func(u Upstream) html.HTML {
		a := &u.Hour
		return html.Join(
			html.F(`<tr><th scope="row"><a href="/dashboard/upstreams/{}">{}</a><small>{}</small></th><td>{}</td><td class="c-num">{}</td>`,
				u.Name, u.Name, u.Kind, u.state(t), Exact(a.Usage.Calls)),
			html.F(`<td class="{}">{}</td>{}`, errorsClass(a.errors()), Exact(a.errors()), hitRate(a.Usage)),
			html.F(`<td class="c-num">{}</td><td class="c-num">{}</td><td class="c-num">{}</td><td class="c-num">{}</td></tr>`,
				Duration(a.First.P50), Duration(a.First.P95), Duration(a.Total.P50), Duration(a.Total.P95)))
	}
	return html.F(`<div class="head"><h1>Upstreams</h1></div>
<section aria-label="Upstreams in the last hour"><div class="surface scroll"><table class="plain" id="upstreams"><caption class="hidden">Upstreams in the last hour</caption>`+
		`<thead><tr><th scope="col">Upstream</th><th scope="col">State</th><th scope="col" class="c-num">Calls</th><th scope="col" class="c-num">Errors</th>`+
		`<th scope="col" class="c-num">Hit rate</th><th scope="col" class="c-num">First byte, median</th><th scope="col" class="c-num">95 %</th>`+
		`<th scope="col" class="c-num">Total, median</th><th scope="col" class="c-num">95 %</th></tr></thead>
<tbody>{}</tbody></table></div>
<p class="after muted">Calls of the last hour. Errors are those of all attempts, also where another upstream answered.{}</p></section>
`, html.Each(p.List, row), onlyNewest(p.Cut))
}

func onlyNewest(cut bool) html.HTML {
	return html.If(cut, ` Only the newest calls: there were more.`)
}

// errors returns how many attempts failed.
func (a *Activity) errors() (n int64) {
	for _, e := range a.Errors {
		n += e.Count
	}
	return n
}

// state shows whether the upstream can answer calls.
func (u Upstream) state(t Times) html.HTML {
	switch {
	case u.Unready != "":
		return html.F(`<span class="tone bad">{}</span>`, u.Unready)
	case len(u.Keys) > 0:
		return html.Each(u.Keys, func(k perigee.KeyProblem) html.HTML { return html.F(`<span class="tone warn">{}</span>`, t.key(k)) })
	}
	return html.F(`<span class="tone ok">ready</span>`)
}

// key describes a key that is not used, and until when.
func (t Times) key(k perigee.KeyProblem) html.HTML {
	return html.Join(html.With(k.Model, `{}: `), html.F(`{}`, k.Why),
		html.If(k.Until.After(t.Now), `, back in {}`, t.until(k.Until)))
}

func (u Upstream) HTML(t Times) html.HTML {
	r, a := &u.Hour.Usage, &u.Hour
	quantile := func(name string, q Quantiles) html.HTML {
		return html.F(`<div><dt>{}</dt><dd>{}{}</dd></div>
`, name, Duration(q.P50), html.If(q.P95 > 0, `<small>95 % within {}</small>`, Duration(q.P95)))
	}
	plot := func(title string, c Chart) html.HTML {
		return html.F(`<div><div class="section-head"><h3>{}</h3><ul class="legend"><li><i class="s-p50"></i>Median</li><li><i class="s-p95"></i>95 %</li></ul></div>`+
			`<div class="surface pad low">{}</div></div>
`, title, chart(c))
	}
	return html.Join(
		html.F(`<p class="crumb"><a href="/dashboard/upstreams">Upstreams</a> <span aria-hidden="true">/</span> {}</p>
<div class="head"><h1>{}</h1></div>
`, u.Kind, u.Name),
		warning(u.Unready),
		html.F(`<section aria-labelledby="hour-title"><h2 id="hour-title">Last hour</h2><dl class="numbers" id="hour">
<div><dt>Calls</dt><dd>{}</dd></div>
{}`, Exact(r.Calls), tokens(r)),
		html.F(`{}{}<div><dt>Cost</dt><dd>{}</dd></div>
</dl>
`, quantile("First byte", a.First), quantile("Total", a.Total), CostOf(*r)),
		html.F(`<div class="plots">{}{}</div>{}</section>
`, plot("Time to first byte", a.FirstByte), plot("Total time", a.Durations), html.If(u.Cut, `<p class="after muted">Only the newest calls: there were more.</p>`)),
		u.errors(t), u.keys(t), u.models())
}

// errors lists the errors of the last hour.
func (u Upstream) errors(t Times) html.HTML {
	if len(u.Hour.Errors) == 0 {
		return html.F(`<section aria-labelledby="errors-title"><h2 id="errors-title">Errors</h2><div class="empty slim"><p>None in the last hour.</p></div></section>
`)
	}
	row := func(e ErrorCount) html.HTML {
		c := &e.Newest
		return html.Join(
			html.F(`<tr><th scope="row">{}</th><td class="c-num bad">{}</td>`, cmp.Or(words(string(e.Class)), "error"), Exact(e.Count)),
			html.F(`<td><a href="/dashboard/calls/{}">{}</a></td><td>{}</td></tr>`, c.ID, t.element(c.Time, t.clock(c.Time)), e.Text))
	}
	return html.F(`<section aria-labelledby="errors-title"><h2 id="errors-title">Errors</h2>
<div class="surface scroll"><table class="plain" id="errors"><caption class="hidden">Errors of the last hour by class</caption><thead><tr><th scope="col">Class</th>`+
		`<th scope="col" class="c-num">Attempts</th><th scope="col">Newest</th><th scope="col">Error</th></tr></thead>
<tbody>{}</tbody></table></div></section>
`, html.Each(u.Hour.Errors, row))
}

// keys lists the API keys that are not used now.
func (u Upstream) keys(t Times) html.HTML {
	if len(u.Keys) == 0 {
		return html.HTML{}
	}
	item := func(k perigee.KeyProblem) html.HTML {
		return html.F(`<li><span class="dot warn" aria-hidden="true"></span><div>{}</div></li>`, t.key(k))
	}
	return html.F(`<section aria-labelledby="keys-title"><h2 id="keys-title">Keys</h2><ul class="surface states" id="keys">{}</ul></section>
`, html.Each(u.Keys, item))
}

// models lists the models of the upstream.
func (u Upstream) models() html.HTML {
	return html.F(`<section aria-labelledby="models-title"><h2 id="models-title">Models <span class="tally">{}</span></h2>
{}{}</section>
`, len(u.Models), warning(u.Problem), modelTable(u.Models))
}
