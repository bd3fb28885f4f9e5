package roster

import (
	"math"
	"testing"
	"time"

	"perigee"
)

func TestForecastGoesByTheRecentRate(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	ago := func(minutes int, left float64) sample {
		return sample{now.Add(-time.Duration(minutes) * time.Minute), left}
	}
	// Four of its five hours have passed, and half of it is left: at that rate it lasts.
	window := perigee.QuotaWindow{Window: "5h", Length: 5 * time.Hour, Remaining: 0.5, ResetsAt: now.Add(time.Hour)}
	fast := window // only one hour has passed: at that rate it lasts for an hour
	fast.ResetsAt = now.Add(4 * time.Hour)
	used := window
	used.Remaining = 0
	unknown := perigee.QuotaWindow{Remaining: 0.5}
	for _, test := range []struct {
		name    string
		window  perigee.QuotaWindow
		samples []sample
		want    time.Duration // 0 means no forecast
	}{
		{"nothing known, and it lasts", window, nil, 0},
		{"nothing known, and it does not last", fast, nil, time.Hour},
		{"used a lot in the last half hour", window, []sample{ago(30, 1)}, 30 * time.Minute},
		{"used a lot, but it lasts until the reset", window, []sample{ago(30, 0.7)}, 0},
		{"not used in the last half hour", fast, []sample{ago(30, 0.5)}, 0},
		{"too short a time", fast, []sample{ago(9, 0.9), ago(1, 0.6)}, time.Hour},
		{"the oldest sample counts", fast, []sample{ago(60, 1), ago(1, 0.5)}, time.Hour},
		{"begun anew since", fast, []sample{ago(30, 0.1)}, time.Hour},
		{"used up", used, []sample{ago(30, 0.5)}, 0},
		{"without a reset", unknown, []sample{ago(30, 0.6)}, 150 * time.Minute},
	} {
		got, want := runsOut(test.window, test.samples, now), time.Time{}
		if test.want > 0 {
			want = now.Add(test.want)
		}
		if got.Sub(want).Abs() > time.Second {
			t.Errorf("%s: got %v, want %v", test.name, got, want)
		}
	}
}

func TestHistoryHasTheReadingsOfTheLastHour(t *testing.T) {
	var h history
	began := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	row := func(account string, left float64) perigee.QuotaRow {
		return perigee.QuotaRow{Account: account, Model: "m", Remaining: left, Windows: []perigee.QuotaWindow{
			{Window: "5h", Length: 5 * time.Hour, Remaining: left, ResetsAt: began.Add(5 * time.Hour)}}}
	}
	key := historyKey{account: "a", model: "m", window: "5h"}
	oldest := func(after time.Duration, left float64) {
		t.Helper()
		first := h.windows[key][0]
		if !first.at.Equal(began.Add(after)) || math.Abs(first.left-left) > 1e-9 {
			t.Errorf("the oldest sample is %v after %v, want %v after %v", first.left, first.at.Sub(began), left, after)
		}
	}
	h.add([]perigee.QuotaRow{row("b", 1)}, began)
	left := 1.0
	for minute := range 101 {
		h.add([]perigee.QuotaRow{row("a", left)}, began.Add(time.Duration(minute)*time.Minute))
		left -= 0.005
	}
	oldest(40*time.Minute, 1-40*0.005)
	if h.windows[historyKey{account: "b", model: "m", window: "5h"}] != nil {
		t.Error("an account that was not asked for an hour is remembered")
	}
	now := began.Add(100 * time.Minute)
	for second := range 50 { // many readings in a short time are few samples
		h.add([]perigee.QuotaRow{row("a", 0.4)}, now.Add(time.Duration(second)*time.Second))
	}
	if n := len(h.windows[key]); n > 63 {
		t.Errorf("there are %d samples", n)
	}
	// 0.4 has gone in the last hour, and 0.4 is left: it runs out in an hour.
	rows := h.forecast([]perigee.QuotaRow{row("a", 0.4), row("c", 0.9)}, now)
	if end := rows[0].RunsOutAt; end.Sub(now.Add(time.Hour)).Abs() > time.Minute {
		t.Errorf("it runs out at %v", end)
	}
	if end := rows[1].RunsOutAt; !end.IsZero() {
		t.Errorf("an account without a history that lasts runs out at %v", end)
	}
	h.add([]perigee.QuotaRow{row("a", 1)}, now.Add(time.Hour))
	oldest(160*time.Minute, 1)
	h.add([]perigee.QuotaRow{row("a", 0.9)}, now) // the clock was set back
	oldest(100*time.Minute, 0.9)
}
