package config

import (
	"testing"
	"time"
)

func TestDurationsHaveDays(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"90d": 90 * day, "1d": day, "0d": 0, "1d12h": 36 * time.Hour, "36h": 36 * time.Hour, "1d0.5s": day + 500*time.Millisecond,
		"0": 0, "1h30m": 90 * time.Minute, "106751d": 106751 * day,
	} {
		if got, ok := parseDuration(text); !ok || got != want {
			t.Errorf("%s: %v, %v", text, got, ok)
		}
	}
	for _, text := range []string{"", "d", "1.5d", "-1d", "+1d", "1d-1h", "1d+1h", "1h1d", "1d1d", "1d1", "106752d", "106751d24h", "99999999999d", "1 d", "1D"} {
		if got, ok := parseDuration(text); ok {
			t.Errorf("%q is taken for %v", text, got)
		}
	}
	for d, want := range map[time.Duration]string{
		90 * day: "90d", 48 * time.Hour: "2d", 36 * time.Hour: "36h", 0: "0s", 2 * time.Minute: "2m", 90 * time.Minute: "1h30m", time.Second: "1s",
	} {
		if got := formatDuration(d); got != want {
			t.Errorf("%v is written %s, want %s", d, got, want)
		}
		if again, ok := parseDuration(formatDuration(d)); !ok || again != d {
			t.Errorf("%s is read as %v, %v", formatDuration(d), again, ok)
		}
	}
}
