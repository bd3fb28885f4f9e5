package pool

import (
	"testing"
	"time"

	"perigee/internal/adapt/providererr"
)

// The error of a pool is about the cause that ends first, and about the easiest one if none ends by
// itself.
func TestDecisive(t *testing.T) {
	var list tallies
	add := func(kind providererr.Kind, first time.Duration) {
		list.Add(tally{Kind: kind, Count: 1, First: first})
	}
	add(providererr.KindBan, 0)
	add(providererr.KindSignedOut, 0)
	if got := list.Decisive(); got.Kind != providererr.KindSignedOut {
		t.Errorf("%s decides", got.Kind)
	}
	add(providererr.KindQuota, time.Hour)
	add(providererr.KindRate, time.Minute)
	add(providererr.KindQuota, 30*time.Minute)
	if got := list.Decisive(); got.Kind != providererr.KindRate {
		t.Errorf("%s decides", got.Kind)
	}
	want := "no account is usable for m; of 5: 1 banned, 1 signed out, 2 out of quota (back in 30m0s), 1 over the rate limit (back in 1m0s)"
	if got := list.Message("m", 0); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
