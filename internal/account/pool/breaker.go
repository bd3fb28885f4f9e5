package pool

import (
	"fmt"
	"slices"
	"time"

	"perigee"
	"perigee/internal/adapt/providererr"
	"perigee/internal/lib/steadyclock"
)

const (
	// breakerOpenFor is how long a breaker stays open, and how long between two probes.
	breakerOpenFor = 10 * time.Minute
	// breakerMaxLost is how many accounts may be lost to one cause. A third would be lost to it
	// too.
	breakerMaxLost = 2
)

// A breaker opens when breakerMaxLost accounts in a row were banned, or have to be verified, and no
// call was answered in between: the cause may be something that all accounts have in common, and
// the next one would be locked too. While it is open no account is leased, but every breakerOpenFor
// one call probes one account. A good answer resets it, and so does the owner. P identifies the
// call that probes.
//
// It lives in memory: a restart resets it, and each replica has its own. A breaker that is open
// without need costs all calls, a missing one at most breakerMaxLost accounts for each replica.
type breaker[P comparable] struct {
	lost  []string            // accounts that were locked since the last good answer
	kind  providererr.Kind    // why the last of them was
	mixed bool                // the accounts were locked for different reasons
	until steadyclock.Instant // when one call may probe; 0 if it is closed
	probe P                   // the call that probes now; zero if there is none
}

// Trip notes that an account was locked, and reports whether the breaker is open now.
func (b *breaker[P]) Trip(email, state string, now steadyclock.Instant) bool {
	kind := providererr.KindBan
	switch state {
	case perigee.AccountBanned:
	case perigee.AccountVerification:
		kind = providererr.KindVerification
	default:
		return false
	}
	b.mixed = b.mixed || b.kind != "" && b.kind != kind
	b.kind = kind
	if !slices.Contains(b.lost, email) {
		b.lost = append(b.lost, email)
	}
	if len(b.lost) < breakerMaxLost {
		return false
	}
	b.until = now + breakerOpenFor
	return true
}

// Reset closes the breaker.
func (b *breaker[P]) Reset() { *b = breaker[P]{} }

// Open reports whether no account may be leased right now.
func (b *breaker[P]) Open(now steadyclock.Instant) bool {
	var none P
	return b.until > now || b.probe != none
}

// Tripped reports whether the breaker is open or waits for a probe.
func (b *breaker[P]) Tripped() bool { return b.until > 0 }

// Blocks reports whether a call gets no account. A call that asks no model is not a probe.
func (b *breaker[P]) Blocks(asksModel bool, now steadyclock.Instant) bool {
	return b.Tripped() && (b.Open(now) || !asksModel)
}

// StartProbe makes a call the probe if one is due.
func (b *breaker[P]) StartProbe(call P, now steadyclock.Instant) {
	if b.Tripped() {
		b.probe, b.until = call, now+breakerOpenFor
	}
}

// EndProbe notes the result of a call that may be the probe. A call that was canceled, or was wrong
// in itself, has proven nothing, so that the next call probes.
func (b *breaker[P]) EndProbe(call P, v *providererr.Diagnosis, now steadyclock.Instant) {
	var none P
	if b.probe != call {
		return
	}
	b.probe = none
	if v != nil && (v.Scope == providererr.ScopeNone || v.Scope == providererr.ScopeRequest || v.Kind == providererr.KindNoToken) {
		b.until = now
	}
}

// Until returns when the next call may probe.
func (b *breaker[P]) Until() steadyclock.Instant { return b.until }

// Kind returns why the last account was locked.
func (b *breaker[P]) Kind() providererr.Kind { return b.kind }

// Lost returns the number of accounts that were locked since the last good answer.
func (b *breaker[P]) Lost() int { return len(b.lost) }

// Cause describes why the breaker is open.
func (b *breaker[P]) Cause() string {
	what := "banned"
	switch {
	case b.mixed:
		what = "banned, or locked until they are verified"
	case b.kind == providererr.KindVerification:
		what = "locked until they are verified"
	}
	return fmt.Sprintf("%d accounts in a row were %s, with no good answer in between", len(b.lost), what)
}
