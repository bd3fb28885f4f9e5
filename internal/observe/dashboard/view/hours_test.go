package view

import (
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
	if want := (Latency{Upstream: "studio", Calls: 20, ErrorShare: "0%", P50: time.Second, P95: 1900 * time.Millisecond}); len(r.Upstreams) != 2 || r.Upstreams[0] != want {
		t.Errorf("%+v", r.Upstreams)
	}
	if g := r.Upstreams[1]; g.Calls != 2 || g.Errors != 2 || g.ErrorShare != "100%" || g.P50 != time.Second {
		t.Errorf("%+v", g)
	}
	for name, c := range map[string]Chart{"tokens": r.Tokens, "calls": r.Calls, "first byte": r.FirstByte} {
		if len(c.Bars) != Hours || c.Empty || len(c.Bars[Hours-1].Parts) == 0 || len(c.Bars[Hours-4].Parts) == 0 || len(c.Bars[0].Parts) != 0 ||
			len(c.Dates) != 3 || c.Dates[2] != "14:00" || c.Dates[0] != "15:00" {
			t.Errorf("%s: %+v", name, c)
		}
	}
	if got, want := r.Calls.Bars[Hours-1].Title, "14:00: 20 calls, 0 errors"; got != want {
		t.Errorf("got %q", got)
	}
	if got := r.Calls.Bars[Hours-4].Parts; len(got) != 1 || got[0].Class != "s-failed" {
		t.Errorf("%+v", got)
	}
	if empty := LastHours(nil, now, time.UTC); !empty.Tokens.Empty || len(empty.Upstreams) != 0 {
		t.Errorf("%+v", empty)
	}
}
