package terminal

import (
	"testing"
	"time"
)

func TestPercentNeverClaimsAllOrNothing(t *testing.T) {
	for fraction, want := range map[float64]string{0: "0%", 0.0001: "<1%", 0.01: "1%", 0.29: "29%", 0.99: "99%", 0.995: ">99%", 0.9999: ">99%", 1: "100%"} {
		if got := Percent(fraction); got != want {
			t.Errorf("%v: got %s, want %s", fraction, got, want)
		}
	}
}

func TestSpansAsPeopleSayThem(t *testing.T) {
	for d, want := range map[time.Duration]string{-time.Hour: "a moment", 400 * time.Millisecond: "a moment", time.Second: "1s", 59 * time.Minute: "59m", 3 * time.Hour: "3h00m", 50 * time.Hour: "2d02h"} {
		if got := Span(d); got != want {
			t.Errorf("%v: got %q, want %q", d, got, want)
		}
	}
}
