package pool

import (
	"fmt"
	"time"

	"perigee"
)

// breakerEnd returns when the next call may probe.
func (p *Pool) breakerEnd() time.Time { return p.date(max(p.breaker.until, p.now)).UTC() }

// reasonBreakerOpen is the reason of the cooldown that Status shows while the breaker is open.
const reasonBreakerOpen = "breaker_open"

// IsBreakerOpen reports whether a cooldown of Status means that no account is leased because the
// breaker is open.
func IsBreakerOpen(c perigee.Cooldown) bool { return c.Reason == reasonBreakerOpen }

// breakerExplanation returns the reason shown to the owner for an account that could be leased
// otherwise.
func (p *Pool) breakerExplanation() string {
	return p.breaker.cause() + " (`perigee account enable` ends this), so it is not used"
}

// breakerRefusal returns the error of a call that gets no account because the breaker is open.
func (p *Pool) breakerRefusal(model string) error {
	b := &p.breaker
	return &perigee.Error{
		Class: causeOf(b.kind).class, Model: model, Retry: max(b.until-p.now, time.Second), Cause: &Shortage{b.kind},
		Message: fmt.Sprintf("%s, so no account is used until %s", b.cause(), p.breakerEnd().Format("15:04:05 MST")),
		Hint: "wait until then, when one call tries an account again, " +
			"or run `perigee account enable` with the address of one of them",
	}
}

// withLostHint adds the consequences for the other accounts to the error of a call that has lost
// breakerMaxLost accounts to one cause.
func (p *Pool) withLostHint(err *perigee.Error) *perigee.Error {
	e, b := *err, &p.breaker
	if !b.open(p.now) {
		e.Hint += "; two accounts failed for the same cause, and the call tried no other: the next call does"
		return &e
	}
	e.Retry = max(b.until-p.now, time.Second)
	e.Hint += fmt.Sprintf("; %s, so no account is used until %s, "+
		"or until you run `perigee account enable` with the address of one of them",
		b.cause(), p.breakerEnd().Format("15:04:05 MST"))
	return &e
}
