package pool

import (
	"testing"
	"time"

	"perigee"
	"perigee/internal/adapt/providererr"
)

func TestBreaker(t *testing.T) {
	const now = time.Hour
	var b breaker[int]
	for range 2 {
		if b.Trip("a", perigee.AccountBanned, now) || b.Trip("b", perigee.AccountSignedOut, now) {
			t.Fatal("one account, or one that was signed out, opens it")
		}
	}
	if !b.Trip("b", perigee.AccountVerification, now) || !b.Open(now) || !b.Blocks(true, now) {
		t.Fatal("two accounts do not open it")
	}
	if got := b.Cause(); got != "2 accounts in a row were banned, or locked until they are verified, with no good answer in between" {
		t.Error(got)
	}
	due := now + breakerOpenFor
	if b.Blocks(true, due) || !b.Blocks(false, due) {
		t.Error("a call that asks a model is no probe, or one that asks none is")
	}
	b.StartProbe(7, due)
	if !b.Blocks(true, due) {
		t.Error("a second call probes at once")
	}
	b.EndProbe(8, nil, due) // another call
	b.EndProbe(7, &providererr.Diagnosis{Scope: providererr.ScopeRequest}, due)
	if b.Blocks(true, due) {
		t.Error("a probe that proved nothing delays the next one")
	}
	b.StartProbe(9, due)
	b.EndProbe(9, &providererr.Diagnosis{Scope: providererr.ScopeAccount}, due)
	if !b.Blocks(true, due) {
		t.Error("a probe that failed closes it")
	}
	if b.Reset(); b.Tripped() || b.Lost() != 0 {
		t.Error("it is open after Reset")
	}
}
