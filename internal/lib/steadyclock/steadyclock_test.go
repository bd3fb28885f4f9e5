package steadyclock

import (
	"testing"
	"time"
)

func TestClockFollowsTheClockThatRunsAhead(t *testing.T) {
	for _, test := range []struct {
		name       string
		wall, mono time.Duration // how far each clock is moved
		want       time.Duration
	}{
		{"time passes", time.Hour, time.Hour, time.Hour},
		{"the clocks differ a little", time.Hour + jump/2, time.Hour, time.Hour},
		{"the machine slept", 2 * time.Hour, time.Second, 2 * time.Hour},
		{"the wall clock is set forward", 24 * time.Hour, time.Minute, 24 * time.Hour},
		{"the wall clock is set back", -24 * time.Hour, time.Minute, time.Minute},
	} {
		wall, mono := time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC), 5*time.Second
		c := NewWith(func() time.Time { return wall }, func() time.Duration { return mono })
		first := c.Now()
		wall, mono = wall.Add(test.wall), mono+test.mono
		if got := c.Now() - first; got != test.want {
			t.Errorf("%s: %v have passed, want %v", test.name, got, test.want)
		}
		if again := c.Now() - first; again != test.want {
			t.Errorf("%s: read again, %v have passed", test.name, again)
		}
	}
}
