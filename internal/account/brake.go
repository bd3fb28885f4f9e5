package account

import (
	"fmt"
	"slices"
	"time"

	"perigee"
	"perigee/internal/verdict"
)

// spareFor is how long the others are spared after accounts were locked in a row, and how long between two looks whether it
// is over.
const spareFor = 10 * time.Minute

// A brake keeps a cause that locks accounts from going through all of them, call by call. When maxSpent accounts in a row were
// banned, or are to be verified, and nobody was answered in between, what did it may well be what they have in common, and the
// next would be lost to it too. Then only one call at a time may look, with one account, every spareFor. A good answer lifts
// it, and so does the owner.
//
// It lives in memory: a restart lifts it, and each replica has its own, as a wrong one costs all calls and a missing one at
// most maxSpent accounts for each replica.
type brake struct {
	lost  []string     // who was locked since the last good answer
	kind  verdict.Kind // why the last of them was
	mixed bool         // others were for the other reason
	until instant      // when one call may look; 0: nobody is spared
	look  *loan        // of the call that looks now
}

// lose notes that an account was locked. One that is disabled was not to be used anyway: only calls that were under way hear of it.
func (p *Pool) lose(m *member, state string, now instant) {
	if !m.signIn.Enabled {
		return
	}
	b, kind := &p.brake, verdict.KindBan
	switch state {
	case perigee.AccountBanned:
	case perigee.AccountVerification:
		kind = verdict.KindVerification
	default:
		return
	}
	b.mixed = b.mixed || b.kind != "" && b.kind != kind
	b.kind = kind
	if !slices.Contains(b.lost, m.email) {
		b.lost = append(b.lost, m.email)
	}
	if len(b.lost) < maxSpent {
		return
	}
	b.until = now + spareFor
	p.changed = true // those who wait need not wait any longer
	if p.anyInUse() {
		logger, lost, until := p.opts.Logger, len(b.lost), p.clock.date(b.until, now)
		p.after = append(p.after, func() {
			logger.Warn("accounts were locked one after the other, and the others are spared", "locked", lost, "until", until)
		})
	}
}

// reasonSpared is the reason of the cooldown that Status shows while all accounts are left alone.
const reasonSpared = "spared"

// IsSpared reports whether a cooldown of Status says that all accounts are left alone.
func IsSpared(c perigee.Cooldown) bool { return c.Reason == reasonSpared }

// lift ends the sparing.
func (p *Pool) lift() {
	if p.brake.until > 0 {
		p.changed = true
	}
	p.brake = brake{}
}

// spares says whether all accounts are left alone right now.
func (p *Pool) spares(now instant) bool {
	return p.brake.until > now || p.brake.look != nil
}

// looksAfter has a loan decide what becomes of the brake.
func (p *Pool) looksAfter(l *loan, now instant) {
	p.brake.look, p.brake.until = l, now+spareFor
}

// looked notes that the call which was to look is over. If it was canceled, or was wrong in itself, nobody has looked.
func (p *Pool) looked(l *loan, v *verdict.Verdict, now instant) {
	if p.brake.look != l {
		return
	}
	p.brake.look = nil
	if v != nil && (v.Blame == verdict.ScopeNobody || v.Blame == verdict.ScopeRequest || v.Kind == verdict.KindNoToken) {
		p.brake.until = now
	}
	p.changed = true
}

// anyInUse says whether there is an account that could be spared.
func (p *Pool) anyInUse() bool { return slices.ContainsFunc(p.members, (*member).inUse) }

// sparing is what a call is told while the accounts are spared.
func (p *Pool) sparing(model string, now instant) error {
	b := &p.brake
	wait := max(b.until-now, time.Second)
	return &perigee.Error{
		Class: causes[b.kind].class, Model: model, Retry: wait, Cause: &Shortage{b.kind},
		Message: fmt.Sprintf("%s, so the others are spared until %s", b.happened(), p.spareEnd(now)),
		Next:    "wait until then, when one call looks whether it is over, or lift it with `perigee account enable` and the address of one of them",
	}
}

// happened says what the accounts are spared for.
func (b *brake) happened() string {
	what := "banned"
	switch {
	case b.mixed:
		what = "banned, or locked until they are verified"
	case b.kind == verdict.KindVerification:
		what = "locked until they are verified"
	}
	return fmt.Sprintf("%d accounts in a row were %s, with no good answer in between", len(b.lost), what)
}

// spareEnd is when one call may look.
func (p *Pool) spareEnd(now instant) string {
	return p.clock.date(max(p.brake.until, now), now).UTC().Format("15:04:05 MST")
}

// spared is what the owner is told about an account that is spared.
func (p *Pool) spared() string {
	return p.brake.happened() + " (`perigee account enable` lifts this), so it is spared"
}
