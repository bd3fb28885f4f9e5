package pool

import (
	"testing"
	"time"
)

func TestHealth(t *testing.T) {
	const now = 100 * time.Hour
	h := newHealth(now)
	fresh := h.score(quotaUnknown, now)
	for range 2 {
		h.addPoints(pointsFault, now)
	}
	if h.fit(now) || h.score(quotaUnknown, now) >= fresh-unfit/2 {
		t.Errorf("after two faults: fit %t, score %.0f", h.fit(now), h.score(quotaUnknown, now))
	}
	if later := now + 24*time.Hour; !h.fit(later) {
		t.Error("it does not recover within a day")
	}
	busy := newHealth(now)
	for range 50 {
		busy.charge(now)
	}
	if busy.fit(now) || !busy.fit(now+loadCall) {
		t.Error("fifty calls at once are too many, and fewer are not")
	}
	busy.uncharge(now)
	if !busy.fit(now) {
		t.Error("a call that was not answered still counts")
	}
	if full, empty := h.score(1, now), h.score(0, now); full <= empty {
		t.Errorf("quota: %.0f with all of it, %.0f with none", full, empty)
	}
}
