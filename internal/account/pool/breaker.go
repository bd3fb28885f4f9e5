package pool

import (
	"fmt"
	"slices"
	"time"

	"perigee/internal/adapt/providererr"
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
// one call probes one account. A good answer resets it, and so does the owner. The zero value is a
// closed breaker.
//
// It lives in memory: a restart resets it, and each replica has its own. A breaker that is open
// without need costs all calls, a missing one at most breakerMaxLost accounts for each replica.
type breaker struct {
	lost  []string         // accounts that were locked since the last good answer
	kind  providererr.Kind // why the last of them was
	mixed bool             // the accounts were locked for different reasons
	until instant          // when one call may probe; 0 if it is closed
	probe *lease           // the call that probes now; nil if there is none
}

// trip records that an account was locked, and reports whether the breaker is open now.
func (b *breaker) trip(email, state string, now instant) bool {
	kind := kindOfState(state)
	if kind != providererr.KindBan && kind != providererr.KindVerification {
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

// reset closes the breaker.
func (b *breaker) reset() { *b = breaker{} }

// open reports whether no account may be leased right now.
func (b *breaker) open(now instant) bool { return b.until > now || b.probe != nil }

// tripped reports whether the breaker is open or waits for a probe.
func (b *breaker) tripped() bool { return b.until > 0 }

// blocks reports whether a call gets no account. A call that asks no model is not a probe.
func (b *breaker) blocks(asksModel bool, now instant) bool {
	return b.tripped() && (b.open(now) || !asksModel)
}

// startProbe makes a call the probe if one is due.
func (b *breaker) startProbe(l *lease, now instant) {
	if b.tripped() {
		b.probe, b.until = l, now+breakerOpenFor
	}
}

// endProbe applies the result of a call that may be the probe. A call that was canceled, or was
// wrong in itself, has proven nothing, so that the next call probes.
func (b *breaker) endProbe(l *lease, v *providererr.Diagnosis, now instant) {
	if b.probe != l {
		return
	}
	b.probe = nil
	if v != nil && (v.Scope == providererr.ScopeNone || v.Scope == providererr.ScopeRequest || v.Kind == providererr.KindNoToken) {
		b.until = now
	}
}

// cause describes why the breaker is open.
func (b *breaker) cause() string {
	locked := "banned"
	switch {
	case b.mixed:
		locked = "banned, or locked until they are verified"
	case b.kind == providererr.KindVerification:
		locked = "locked until they are verified"
	}
	return fmt.Sprintf("%d accounts in a row were %s, with no good answer in between", len(b.lost), locked)
}
