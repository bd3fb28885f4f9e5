package perigee_test

import (
	"testing"
	"time"

	"perigee"
)

func TestWindowRunsOut(t *testing.T) {
	now := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	const length = 5 * time.Hour
	for _, c := range []struct {
		name      string
		remaining float64
		resets    time.Duration
		length    time.Duration
		want      time.Duration // from now; negative: not before the reset, or unknown
	}{
		{"half used in the first hour", 0.5, 4 * time.Hour, length, time.Hour},
		{"three quarters used in two hours", 0.25, 3 * time.Hour, length, 40 * time.Minute},
		{"as fast as it comes back", 0.2, time.Hour, length, -1},
		{"slower than it comes back", 0.9, time.Hour, length, -1},
		{"used up", 0, time.Hour, length, -1},
		{"untouched", 1, 2 * time.Hour, length, -1},
		{"just begun", 0.99, length - time.Minute, length, -1},
		{"of unknown length", 0.5, time.Hour, 0, -1},
		{"over", 0.5, -time.Minute, length, -1},
		{"longer than it should be", 0.5, 6 * time.Hour, length, -1},
	} {
		w := perigee.QuotaWindow{Length: c.length, Remaining: c.remaining, ResetsAt: now.Add(c.resets)}
		got := w.RunsOut(now)
		if c.want < 0 && !got.IsZero() || c.want >= 0 && !got.Equal(now.Add(c.want)) {
			t.Errorf("%s: it runs out at %v, want %v from %v", c.name, got, c.want, now)
		}
	}
	if end := (perigee.QuotaWindow{Length: length, Remaining: 0.5}).RunsOut(now); !end.IsZero() {
		t.Errorf("without a time of reset it runs out at %v", end)
	}
}
