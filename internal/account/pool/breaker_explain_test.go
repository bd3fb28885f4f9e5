package pool

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"perigee"
	"perigee/internal/adapt/providererr"
)

// locks makes calls, one after the other, that are all answered with a diagnosis that locks the
// account; it returns the accounts that they asked.
func (r *poolRig) locks(kind providererr.Kind, calls int) (asked string) {
	r.t.Helper()
	for range calls {
		who, _ := r.call(flash, func(string) *providererr.Diagnosis { return judged(kind, 0) })
		asked += who + "|"
	}
	return asked
}

// Whatever it is that has accounts locked, it does not get all of them call by call.
func TestTwoLockedAccountsInARowSpareTheOthers(t *testing.T) {
	for kind, class := range map[providererr.Kind]perigee.Class{providererr.KindBan: perigee.ClassForbidden, providererr.KindIneligible: perigee.ClassForbidden,
		providererr.KindVerification: perigee.ClassVerification} {
		for _, selection := range []string{Sticky, RoundRobin, Hybrid} {
			synctest.Test(t, func(t *testing.T) {
				r := newPoolRig(t, 5, onlyAntigravity(Options{Selection: selection, MaxWait: time.Minute}))
				start := time.Now()
				r.sees("calls", r.locks(kind, 4), "ab||||")
				e := r.refused(in("s", opus))
				if e.Class != class || e.Retry != breakerOpenFor || time.Since(start) != 0 ||
					!strings.Contains(e.Message, "2 accounts in a row were") || !strings.Contains(e.Message, "no account is used until 00:10:00 UTC") ||
					!strings.Contains(e.Hint, "`perigee account enable`") {
					t.Errorf("%s, again in %s, after %s: %v", e.Class, e.Retry, time.Since(start), e)
				}
				r.refused(Request{}) // lists are not worth an account either
				passes(breakerOpenFor)
				r.refused(Request{})
				r.sees("one call looks, with one account", r.locks(kind, 3), "c|||")
				passes(breakerOpenFor)
				l := r.take(flash)
				r.sees("the next look", name(l), "d")
				if e := r.refused(flash); e.Retry != breakerOpenFor {
					t.Errorf("while it looks: %v", e)
				}
				l.Done(nil)
				r.asks(opus, 3) // a good answer lifts it
			})
		}
	}
}

func TestTheCallThatLosesTwoAccountsSaysThatNoOtherIsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 3, Options{})
		_, end := r.call(flash, func(string) *providererr.Diagnosis { return judged(providererr.KindBan, 0) })
		if end.Error.Retry != breakerOpenFor || !strings.Contains(end.Error.Hint, "used until 00:10:00 UTC") || strings.Contains(end.Error.Hint, "next call does") {
			t.Errorf("%s: %v", end.Error.Retry, end.Error)
		}
	})
}

// A pool in which an account dies now and then goes on.
func TestAccountsThatAreLockedNowAndThenDoNotTripTheBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 6, onlyAntigravity(Options{}))
		r.sees("good answers in between", r.asks(flash, 1)+r.ask(flash, judged(providererr.KindBan, 0))+r.asks(flash, 1)+r.ask(flash, judged(providererr.KindVerification, 0))+
			r.asks(flash, 1)+r.ask(flash, judged(providererr.KindBan, 0))+r.asks(flash, 2), "aabbccdd")
		r.ask(flash, judged(providererr.KindBan, 0))
		r.ask(flash, judged(providererr.KindSignedOut, 0))
		r.sees("a lost sign-in is another matter", r.ask(flash, nil), "f")
	})
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 3, onlyAntigravity(Options{}))
		other := r.take(flash)
		r.ask(flash, judged(providererr.KindBan, 0))
		other.Done(nil) // by the account that was locked meanwhile
		r.ask(flash, judged(providererr.KindBan, 0))
		r.refused(flash)
		r = newPoolRig(t, 2, onlyAntigravity(Options{}))
		r.ask(flash, judged(providererr.KindBan, 0))
		for range 3 { // the same one again
			r.enable(0, false)
			r.enable(0, true)
			r.ask(flash, nil)
		}
	})
}

func TestWhatLiftsTheSparing(t *testing.T) {
	for what, lift := range map[string]func(r *poolRig){
		"the owner enables one that was enabled": func(r *poolRig) { _ = r.Clear("c") },
		"the owner uses one":                     func(r *poolRig) { _ = r.Use("d") },
		"the owner brings a locked one back": func(r *poolRig) {
			r.sources[0].change(func(s *perigee.SignIn) { s.Generation++ })
			r.announce()
		},
		"a new account": func(r *poolRig) {
			r.sources = append(r.sources, newSource("x"))
			r.announce()
		},
		"a call that was under way is answered": nil,
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newPoolRig(t, 4, onlyAntigravity(Options{Selection: RoundRobin, MaxWait: time.Minute}))
			r.asks(flash, 2)
			under := r.take(flash) // c
			r.enable(3, false)
			r.enable(3, true)
			r.ask(flash, nil) // d
			r.sees("calls", r.locks(providererr.KindBan, 2), "ab||")
			r.announce() // which changes nothing
			r.refused(flash)
			if lift == nil {
				under.Done(nil)
			} else {
				lift(r)
			}
			if _, err := r.Acquire(flash).Next(t.Context()); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		})
	}
}

// A probe that is canceled, or whose request is invalid, has proven nothing.
func TestLookThatSaysNothingIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 4, onlyAntigravity(Options{}))
		r.locks(providererr.KindBan, 1)
		passes(breakerOpenFor)
		r.ask(flash, judged(providererr.KindBadRequest, 0))
		r.take(flash).(*lease).release()
		r.sources[2].fail(perigee.Errorf(perigee.ClassUnavailable, "no network"))
		r.sees("the next call looks", r.ask(flash, judged(providererr.KindUnavailable, 0)), "d")
		r.refused(flash)
	})
}

// An answer may stream for hours, and its first words prove the point.
func TestLookIsOverWhenItsAnswerBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 5, onlyAntigravity(Options{MaxWait: time.Minute}))
		r.locks(providererr.KindBan, 2)
		passes(breakerOpenFor)
		l := r.take(flash)
		r.refused(flash)
		l.Answering()
		r.take(flash).Done(nil)
		l.Done(nil)
	})
}

func TestAccountsAreShownAsBlockedWhileTheBreakerIsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 3, onlyAntigravity(Options{}))
		r.locks(providererr.KindBan, 1)
		const why = "2 accounts in a row were banned, with no good answer in between (`perigee account enable` ends this), so it is not used"
		x := r.Explain(flash)[0]
		if x.Email != "c" || x.Usable || x.Chosen || x.Why != why || !x.Until.Equal(time.Now().Add(breakerOpenFor)) {
			t.Errorf("%+v", x)
		}
		a := r.Status()[2]
		r.sees("reason", a.Reason, why)
		r.sees("rests", restOf(a), "[  breaker_open]")
		r.sees("the locked one says why it is", r.Status()[0].State+restOf(r.Status()[0]), "banned")
		passes(breakerOpenFor)
		if x := r.Explain(flash)[0]; x.Email != "c" || !x.Chosen {
			t.Errorf("when it is time to look: %+v", x)
		}
		r.sees("and it is true", r.ask(flash, nil), "c")
		r.sees("rests", restOf(r.Status()[2]), "")
	})
}

func TestWaitingCallsAreRefusedWhenTheBreakerTrips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 3, onlyAntigravity(Options{MaxWait: time.Minute}))
		one, two := r.take(opus), r.take(opus)
		r.enable(0, false)
		r.enable(0, true)
		third := r.take(in("t", opus))
		r.ask(flash, judged(providererr.KindRate, 30*time.Second))
		r.ask(flash, judged(providererr.KindRate, 30*time.Second))
		r.ask(flash, judged(providererr.KindRate, 30*time.Second))
		events := newEventLog()
		r.queue(t.Context(), events, "1", flash, 0)
		passes(time.Second)
		one.Done(judged(providererr.KindBan, 0))
		r.ask(opus, judged(providererr.KindBan, 0))
		synctest.Wait()
		r.sees("events", events.String(), "1s 1: forbidden")
		two.Done(nil)
		third.Done(nil)
	})
}
