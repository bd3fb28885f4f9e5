package pages

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"perigee"
)

// Hours is the number of hours in the charts of the last hours.
const Hours = 24

// maxSessions is how many sessions of the last hours are listed.
const maxSessions = 20

// A Recent summarizes the calls of the last hours.
type Recent struct {
	Tokens, Calls, FirstByte Chart
	Upstreams                []Latency
	Sessions                 []perigee.UsageRow // with the client in Each, those with the most tokens first
	Cut                      bool               // there were more calls than were looked at
}

// A Latency summarizes the answers of an upstream.
type Latency struct {
	Upstream      string
	Calls, Errors int64
	P50, P95      time.Duration // to the first byte, of the calls that had one; 0 if none had
}

// An hour has the sums of the calls that began in it.
type hour struct {
	usage perigee.UsageRow
	first []time.Duration
}

// usageOf returns the usage of one call.
func usageOf(c *perigee.Call) perigee.UsageRow {
	u := perigee.UsageRow{Calls: 1, InputTokens: c.Usage.Input, CachedTokens: c.Usage.Cached, WrittenTokens: c.Usage.Written,
		OutputTokens: c.Usage.Output, ThinkingTokens: c.Usage.Thinking, CostUSD: c.Cost}
	if failed(c) {
		u.Errors = 1
	}
	if !c.Cost.Known && c.Usage.Total() > 0 {
		u.UnpricedCalls = 1
	}
	return u
}

// LastHours sums up calls by hour, by upstream and by session. Calls that are open, and replays, do not count.
func LastHours(calls []perigee.Call, now time.Time, zone *time.Location) (r Recent) {
	begin := now.Truncate(time.Hour).Add(-(Hours - 1) * time.Hour)
	hours := make([]hour, Hours)
	upstreams, times := map[string]*Latency{}, map[string][]time.Duration{}
	sessions := map[string]*perigee.UsageRow{}
	for i := range calls {
		c := &calls[i]
		n := int(c.Time.Sub(begin) / time.Hour)
		if c.Time.Before(begin) || n >= Hours || c.Outcome == perigee.OutcomeOpen || c.ReplayOf != "" {
			continue
		}
		h := &hours[n]
		row := usageOf(c)
		h.usage.Add(row)
		if id := c.Client.Session; id != "" {
			s := sessions[id]
			if s == nil {
				s = &perigee.UsageRow{Group: id, Each: c.Client.Name}
				sessions[id] = s
			}
			s.Add(row)
		}
		u := upstreams[c.Upstream]
		if u == nil {
			u = &Latency{Upstream: c.Upstream}
			upstreams[c.Upstream] = u
		}
		u.Calls, u.Errors = u.Calls+1, u.Errors+row.Errors
		if c.FirstByte > 0 {
			h.first = append(h.first, c.FirstByte)
			times[c.Upstream] = append(times[c.Upstream], c.FirstByte)
		}
	}
	for _, u := range slices.SortedFunc(maps.Values(upstreams), func(a, b *Latency) int {
		return cmp.Or(cmp.Compare(b.Calls, a.Calls), cmp.Compare(a.Upstream, b.Upstream))
	}) {
		u.P50, u.P95 = quantiles(times[u.Upstream])
		r.Upstreams = append(r.Upstreams, *u)
	}
	for _, s := range sessions {
		r.Sessions = append(r.Sessions, *s)
	}
	perigee.SortUsage(r.Sessions, perigee.UsageQuery{By: perigee.BySession})
	r.Sessions = r.Sessions[:min(len(r.Sessions), maxSessions)]
	r.draw(hours, begin.In(zone))
	return r
}

// draw sets the charts.
func (r *Recent) draw(hours []hour, begin time.Time) {
	r.Tokens = Chart{Label: "Tokens of each of the last 24 hours", Axis: countAxis}
	r.Calls.Label = "Calls and errors of each of the last 24 hours"
	r.Calls.Axis = func(f float64) string {
		if f != float64(int64(f)) {
			return ""
		}
		return countAxis(f)
	}
	r.FirstByte.Label = "Time to the first byte in each of the last 24 hours, " +
		"median and 95th percentile"
	r.FirstByte.Axis = func(f float64) string { return Duration(time.Duration(f * float64(time.Second))) }
	for i, h := range hours {
		at := begin.Add(time.Duration(i) * time.Hour).Format("15:04")
		p50, p95 := quantiles(h.first)
		u := &h.usage
		r.Tokens.add(at, at+": "+Exact(u.InputTokens)+" in, "+Exact(u.OutputTokens)+" out",
			TokenParts(*u)...)
		r.Calls.add(at, at+": "+Plural(u.Calls, "call")+", "+Plural(u.Errors, "error"),
			Part{"s-done", float64(u.Calls - u.Errors)}, Part{"s-failed", float64(u.Errors)})
		r.FirstByte.add(at, at+": half within "+Duration(p50)+", 95 % within "+Duration(p95),
			Part{"s-p50", p50.Seconds()}, Part{"s-p95", (p95 - p50).Seconds()})
	}
}

// quantiles returns the median and the 95th percentile of times. Both are 0 without times.
func quantiles(times []time.Duration) (p50, p95 time.Duration) {
	if len(times) == 0 {
		return 0, 0
	}
	times = slices.Sorted(slices.Values(times))
	at := func(percent int) time.Duration { return times[(len(times)*percent+99)/100-1] }
	return at(50), at(95)
}
