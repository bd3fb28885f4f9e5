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
		list.add(tally{kind: kind, count: 1, first: first})
	}
	add(providererr.KindBan, 0)
	add(providererr.KindSignedOut, 0)
	if got := list.decisive(); got.kind != providererr.KindSignedOut {
		t.Errorf("%s decides", got.kind)
	}
	add(providererr.KindQuota, time.Hour)
	add(providererr.KindRate, time.Minute)
	add(providererr.KindQuota, 30*time.Minute)
	if got := list.decisive(); got.kind != providererr.KindRate {
		t.Errorf("%s decides", got.kind)
	}
	want := "no account is usable for m; of 5: 1 banned, 1 signed out, 2 out of quota (back in 30m0s), 1 over the rate limit (back in 1m0s)"
	if got := list.message("m", 0); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
