package pages

import (
	"slices"
	"testing"
	"time"

	"perigee"
)

func TestLastHours(t *testing.T) {
	now := time.Date(2026, 11, 16, 14, 20, 4, 0, time.UTC)
	var calls []perigee.Call
	add := func(age time.Duration, upstream string, outcome perigee.Outcome, first time.Duration, replayOf string) {
		calls = append(calls, perigee.Call{Time: now.Add(-age), Upstream: upstream, Outcome: outcome, FirstByte: first, ReplayOf: replayOf,
			Usage: perigee.Usage{Input: 100, Output: 10}})
	}
	for i := range 20 {
		add(time.Minute, "studio", perigee.OutcomeDone, time.Duration(i+1)*100*time.Millisecond, "")
	}
	add(3*time.Hour, "gravity", perigee.OutcomeFailed, 0, "")
	add(3*time.Hour, "gravity", perigee.OutcomeCutOff, time.Second, "")
	add(time.Minute, "gravity", perigee.OutcomeFailed, time.Second, "another")
	add(time.Minute, "gravity", perigee.OutcomeOpen, time.Second, "")
	add(25*time.Hour, "gravity", perigee.OutcomeDone, time.Second, "")
	r := LastHours(calls, now, time.UTC)
	if want := (Latency{Upstream: "studio", Calls: 20, P50: time.Second, P95: 1900 * time.Millisecond}); len(r.Upstreams) != 2 || r.Upstreams[0] != want {
		t.Errorf("%+v", r.Upstreams)
	}
	if g := r.Upstreams[1]; g.Calls != 2 || g.Errors != 2 || g.P50 != time.Second {
		t.Errorf("%+v", g)
	}
	for name, c := range map[string]Chart{"tokens": r.Tokens, "calls": r.Calls, "first byte": r.FirstByte} {
		if len(c.Columns) != Hours || c.Top() == 0 || sum(c.Columns[Hours-1]) == 0 ||
			sum(c.Columns[Hours-4]) == 0 || sum(c.Columns[0]) != 0 ||
			c.Columns[Hours-1].At != "14:00" || c.Columns[0].At != "15:00" {
			t.Errorf("%s: %+v", name, c.Columns)
		}
	}
	if got, want := r.Calls.Columns[Hours-1].Title, "14:00: 20 calls, 0 errors"; got != want {
		t.Errorf("got %q", got)
	}
	if got := r.Calls.Columns[Hours-4].Parts; len(got) != 2 || got[0].Value != 0 || got[1] != (Part{"s-failed", 2}) {
		t.Errorf("%+v", got)
	}
	if empty := LastHours(nil, now, time.UTC); empty.Tokens.Top() != 0 || len(empty.Upstreams) != 0 {
		t.Errorf("%+v", empty)
	}
}

func TestLastHoursSessions(t *testing.T) {
	now := time.Date(2026, 11, 16, 14, 20, 4, 0, time.UTC)
	call := func(session string, input, cached, written int64, cost perigee.Cost) perigee.Call {
		return perigee.Call{Time: now.Add(-time.Minute), Outcome: perigee.OutcomeDone, Client: perigee.Client{Name: "claude-cli", Session: session},
			Usage: perigee.Usage{Input: input, Cached: cached, Written: written, Output: 10}, Cost: cost}
	}
	r := LastHours([]perigee.Call{
		call("one", 1000, 0, 900, perigee.USD(0.5)), call("one", 1000, 900, 0, perigee.USD(0.25)), call("", 9000, 0, 0, perigee.USD(1)),
		call("two", 500, 0, 0, perigee.Cost{}),
	}, now, time.UTC)
	want := []perigee.UsageRow{
		{Group: "one", Each: "claude-cli", Calls: 2, InputTokens: 2000, CachedTokens: 900, WrittenTokens: 900, OutputTokens: 20, CostUSD: perigee.USD(0.75)},
		{Group: "two", Each: "claude-cli", Calls: 1, InputTokens: 500, OutputTokens: 10, UnpricedCalls: 1},
	}
	if !slices.Equal(r.Sessions, want) {
		t.Errorf("got %+v, want %+v", r.Sessions, want)
	}
	if rate := r.Sessions[0].Usage().HitRate(); rate != 0.45 {
		t.Errorf("hit rate %v", rate)
	}
}

// sum is the height of a column.
func sum(c Column) (height float64) {
	for _, p := range c.Parts {
		height += p.Value
	}
	return height
}
