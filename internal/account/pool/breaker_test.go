package pool

import (
	"testing"
	"time"

	"perigee"
	"perigee/internal/adapt/providererr"
)

func TestBreaker(t *testing.T) {
	const now = time.Hour
	var b breaker
	first, second, other := &lease{}, &lease{}, &lease{}
	for range 2 {
		if b.trip("a", perigee.AccountBanned, now) || b.trip("b", perigee.AccountSignedOut, now) {
			t.Fatal("one account, or one that was signed out, opens it")
		}
	}
	if !b.trip("b", perigee.AccountVerification, now) || !b.open(now) || !b.blocks(true, now) {
		t.Fatal("two accounts do not open it")
	}
	if got := b.cause(); got != "2 accounts in a row were banned, or locked until they are verified, with no good answer in between" {
		t.Error(got)
	}
	due := now + breakerOpenFor
	if b.blocks(true, due) || !b.blocks(false, due) {
		t.Error("a call that asks a model is no probe, or one that asks none is")
	}
	b.startProbe(first, due)
	if !b.blocks(true, due) {
		t.Error("a second call probes at once")
	}
	b.endProbe(other, nil, due) // another call
	b.endProbe(first, &providererr.Diagnosis{Scope: providererr.ScopeRequest}, due)
	if b.blocks(true, due) {
		t.Error("a probe that proved nothing delays the next one")
	}
	b.startProbe(second, due)
	b.endProbe(second, &providererr.Diagnosis{Scope: providererr.ScopeAccount}, due)
	if !b.blocks(true, due) {
		t.Error("a probe that failed closes it")
	}
	if b.reset(); b.tripped() || len(b.lost) != 0 {
		t.Error("it is open after a reset")
	}
}
