package pages

import (
	"testing"
	"time"

	"perigee"
)

// The last hour of an upstream has the calls that it answered, and the errors of all its attempts.
func TestLastHour(t *testing.T) {
	now := time.Date(2026, 11, 16, 14, 20, 4, 0, time.UTC)
	var calls []perigee.Call
	add := func(age time.Duration, upstream string, c perigee.Call) {
		c.Time, c.Upstream = now.Add(-age), upstream
		calls = append(calls, c)
	}
	failure := func(upstream string, class perigee.Class, text string) perigee.Attempt {
		return perigee.Attempt{Upstream: upstream, Class: class, Error: text}
	}
	for i := range 20 {
		add(time.Minute, "claude", perigee.Call{ID: "good", Outcome: perigee.OutcomeDone, FirstByte: time.Duration(i+1) * 100 * time.Millisecond,
			Duration: time.Duration(i+1) * time.Second, Usage: perigee.Usage{Input: 100, Cached: 50, Written: 10, Output: 10}, Cost: perigee.USD(0.25)})
	}
	// Another upstream answered after this one had failed.
	add(2*time.Minute, "studio", perigee.Call{ID: "moved", Outcome: perigee.OutcomeDone, FirstByte: time.Minute,
		Attempts: []perigee.Attempt{failure("claude", perigee.ClassCapacity, "overloaded"), {Upstream: "studio"}}})
	add(3*time.Minute, "claude", perigee.Call{ID: "failed", Outcome: perigee.OutcomeFailed, Class: perigee.ClassCapacity,
		Attempts: []perigee.Attempt{failure("studio", perigee.ClassExhausted, "used up"), failure("claude", perigee.ClassCapacity, "still overloaded")}})
	add(4*time.Minute, "claude", perigee.Call{ID: "cut", Outcome: perigee.OutcomeCutOff, Class: perigee.ClassUnavailable, Error: "the answer was cut short",
		FirstByte: time.Second, Duration: 9 * time.Second, Attempts: []perigee.Attempt{{Upstream: "claude"}}})
	for _, c := range []perigee.Call{{Outcome: perigee.OutcomeOpen}, {Outcome: perigee.OutcomeFailed, Class: perigee.ClassInvalid, ReplayOf: "good"}} {
		add(time.Minute, "claude", c)
	}
	add(61*time.Minute, "claude", perigee.Call{Outcome: perigee.OutcomeFailed, Class: perigee.ClassInvalid})

	a := LastHour(calls, "claude", now, time.UTC)
	if want := (perigee.UsageRow{Calls: 22, InputTokens: 2000, CachedTokens: 1000, WrittenTokens: 200, OutputTokens: 200, Errors: 2,
		CostUSD: perigee.USD(5)}); a.Usage != want {
		t.Errorf("got %+v, want %+v", a.Usage, want)
	}
	if a.First != (Quantiles{time.Second, 1900 * time.Millisecond}) || a.Total != (Quantiles{10 * time.Second, 19 * time.Second}) {
		t.Errorf("%+v %+v", a.First, a.Total)
	}
	if len(a.Errors) != 2 || a.Errors[0].Class != perigee.ClassCapacity || a.Errors[0].Count != 2 || a.Errors[0].Newest.ID != "moved" || a.Errors[0].Text != "overloaded" ||
		a.Errors[1].Class != perigee.ClassUnavailable || a.Errors[1].Count != 1 || a.Errors[1].Newest.ID != "cut" {
		t.Errorf("%+v", a.Errors)
	}
	last := len(a.FirstByte.Columns) - 1
	if got, want := a.FirstByte.Columns[last].Title, "14:20: no call"; last != 29 || got != want {
		t.Errorf("%d columns, the last is %q", last+1, got)
	}
	if got, want := a.Durations.Columns[last-1].Title, "14:18: 20 calls, half within 10.0 s, 95 % within 19.0 s"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if sum(a.Durations.Columns[last-2]) != 9 || sum(a.Durations.Columns[0]) != 0 || a.Durations.Columns[0].At != "13:22" {
		t.Errorf("%+v", a.Durations.Columns)
	}
	if empty := LastHour(calls, "nosuch", now, time.UTC); empty.Usage.Calls != 0 || empty.FirstByte.Top() != 0 || len(empty.Errors) != 0 {
		t.Errorf("%+v", empty)
	}
}
