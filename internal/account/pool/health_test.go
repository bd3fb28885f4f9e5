package pool

import (
	"testing"
	"time"
)

func TestHealth(t *testing.T) {
	const now = 100 * time.Hour
	h := newHealth(now)
	fresh := h.Score(quotaUnknown, now)
	for range 2 {
		h.Recover(pointsFault, now)
	}
	if h.Fit(now) || h.Score(quotaUnknown, now) >= fresh-unfit/2 {
		t.Errorf("after two faults: fit %t, score %.0f", h.Fit(now), h.Score(quotaUnknown, now))
	}
	if later := now + 24*time.Hour; !h.Fit(later) {
		t.Error("it does not recover within a day")
	}
	busy := newHealth(now)
	for range 50 {
		busy.Charge(now)
	}
	if busy.Fit(now) || !busy.Fit(now+loadCall) {
		t.Error("fifty calls at once are too many, and fewer are not")
	}
	busy.Uncharge(now)
	if !busy.Fit(now) {
		t.Error("a call that was not answered still counts")
	}
	if full, empty := h.Score(1, now), h.Score(0, now); full <= empty {
		t.Errorf("quota: %.0f with all of it, %.0f with none", full, empty)
	}
}
