package pool

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"perigee"
	"perigee/internal/adapt/providererr"
)

// rests is for how long the account of a rig with one account cannot be asked.
func (r *poolRig) rests(want Request) time.Duration {
	r.t.Helper()
	l, err := r.Acquire(want).Next(r.t.Context())
	if err == nil {
		l.(*lease).release()
		return 0
	}
	return perigee.AsError(err).Retry
}

// Trap 76: an account that is used again at the very moment is refused again.
func TestToldDelaysAreKeptWithSomeGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 1, onlyAntigravity(Options{}))
		r.ask(flash, judged(providererr.KindRate, 40*time.Second))
		if got := r.rests(flash); got != 40*time.Second+grace {
			t.Errorf("rests for %s", got)
		}
		passes(40*time.Second + grace)
		r.sees("over", r.ask(flash, nil), "a")
		r.ask(flash, judged(providererr.KindQuota, 90*24*time.Hour))
		if got := r.rests(flash); got != providererr.MaxDelay+grace {
			t.Errorf("rests for %s", got)
		}
	})
}

// Trap 72: trouble of the provider's is no step of the ladder, and an answer leads back to its
// foot.
func TestLadderIsClimbedByUntoldLimitsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 1, onlyAntigravity(Options{}))
		climb := func(want ...time.Duration) {
			t.Helper()
			for _, d := range want {
				r.ask(flash, judged(providererr.KindUnexplained, 0))
				if got := r.rests(flash); got != d {
					t.Fatalf("rests for %s, want %s", got, d)
				}
				passes(d)
			}
		}
		climb(time.Second, 2*time.Second, 4*time.Second)
		r.ask(flash, judged(providererr.KindUnavailable, 0))
		r.ask(flash, judged(providererr.KindCapacity, 0))
		r.ask(flash, judged(providererr.KindVersion, 0))
		climb(8*time.Second, 16*time.Second, 32*time.Second, time.Minute, time.Minute)
		r.ask(flash, nil)
		climb(time.Second)
	})
}

// Trap 73: calls that were refused together are one refusal.
func TestLimitsThatCameTogetherCountOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 1, onlyAntigravity(Options{}))
		var leases []Lease
		for range 6 {
			leases = append(leases, r.take(flash))
		}
		for _, l := range leases[:4] {
			l.Done(judged(providererr.KindUnexplained, 0))
		}
		passes(2500 * time.Millisecond)
		leases[4].Done(judged(providererr.KindUnexplained, 0)) // it was under way before the first failed
		if got := r.rests(flash); got != time.Second {
			t.Errorf("rests for %s", got)
		}
		passes(time.Second)
		r.ask(flash, judged(providererr.KindUnexplained, 0))
		leases[5].Done(nil) // an old success proves nothing
		if got := r.rests(flash); got != 2*time.Second {
			t.Errorf("rests for %s", got)
		}
	})
}

func TestWhatTheProviderTellsReplacesAGuess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 1, onlyAntigravity(Options{}))
		other, another := r.take(flash), r.take(flash)
		r.ask(flash, judged(providererr.KindProject, 0))
		other.Done(judged(providererr.KindRate, 10*time.Second))
		if got := r.rests(flash); got != 10*time.Second+grace {
			t.Errorf("rests for %s", got)
		}
		another.Done(judged(providererr.KindProject, 0))
		if got := r.rests(flash); got != 10*time.Second+grace {
			t.Errorf("rests for %s after a guess", got)
		}
	})
}

// Two calls that want the same are not taken for each other, and one that takes its time is not
// forgotten.
func TestCallsKeepTheirOwnPast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 4, onlyAntigravity(Options{}))
		one, other := r.caller(in("s", flash)), r.caller(in("s", flash))
		lost := func(b caller, account string, blame providererr.Scope) {
			t.Helper()
			v := judged(providererr.KindNotFound, 0)
			if got := b.ask(v); got != account || v.Scope != blame {
				t.Errorf("%s was asked, and %s blamed", got, v.Scope)
			}
		}
		lost(one, "a", providererr.ScopeAccountModel)
		lost(other, "b", providererr.ScopeAccountModel)
		passes(time.Minute)
		lost(one, "c", providererr.ScopeNone)
		lost(other, "d", providererr.ScopeNone)
	})
}

func TestBriefDelayIsWaitedForOnTheSameAccount(t *testing.T) {
	for _, selection := range []string{Sticky, RoundRobin, Hybrid} {
		for _, session := range []string{"", "s"} {
			synctest.Test(t, func(t *testing.T) {
				r := newPoolRig(t, 3, Options{Selection: selection, MaxWait: time.Minute})
				b, start := r.caller(in(session, flash)), time.Now()
				home := b.ask(judged(providererr.KindRate, 2*time.Second))
				l := b.take()
				r.sees("account", name(l), home)
				if waited := time.Since(start); waited != 2*time.Second+grace {
					t.Errorf("waited %s", waited)
				}
				l.Done(judged(providererr.KindRate, 4*time.Second))
				if got := b.ask(nil); got == home {
					t.Errorf("waited for a long delay")
				}
				if waited := time.Since(start); waited != 2*time.Second+grace {
					t.Errorf("waited %s in all", waited)
				}
			})
		}
	}
}

func TestBriefDelaysAreNotWaitedForAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 2, Options{MaxWait: time.Minute})
		var got string
		b := r.caller(in("s", flash))
		for range 6 {
			got += b.ask(judged(providererr.KindRate, 2*time.Second))
		}
		r.sees("accounts", got, "aaaabb")
	})
}

func TestWithoutWaitingABriefDelayMovesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 2, Options{})
		b := r.caller(flash)
		b.ask(judged(providererr.KindRate, 2*time.Second))
		r.sees("next", b.ask(nil), "b")
	})
}

func TestFaultsOfTheProviderCoolNoAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 2, Options{})
		for _, kind := range []providererr.Kind{providererr.KindCapacity, providererr.KindVersion, providererr.KindIdentity, providererr.KindOAuthClient, providererr.KindForbidden,
			providererr.KindLocation, providererr.KindEndpoint, providererr.KindUnimplemented, providererr.KindUnavailable, providererr.KindOther, providererr.KindBadRequest, providererr.KindPromptTooLong} {
			r.sees(string(kind), r.ask(flash, judged(kind, time.Hour)), "a")
		}
		r.sees("afterwards", r.ask(flash, nil), "a")
	})
}

func TestUnexplainedRefusalBurnsTwoAccountsAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 5, onlyAntigravity(Options{}))
		b, v := r.caller(flash), judged(providererr.KindUnexplained, 0)
		r.sees("first", b.ask(v), "a")
		if v.Kind != providererr.KindUnexplained {
			t.Error("one account alone proves nothing")
		}
		v = judged(providererr.KindUnexplained, 0)
		r.sees("second", b.ask(v), "b")
		if v.Kind != providererr.KindIdentity || v.Scope != providererr.ScopeNone || v.Error.Class != perigee.ClassIdentity {
			t.Errorf("two accounts were refused alike: %s, %s", v.Kind, v.Scope)
		}
		for _, s := range r.Status() {
			r.sees("rests of "+s.Email, restOf(s), "")
		}
		v = judged(providererr.KindUnexplained, 0)
		r.ask(flash, v)
		passes(2 * time.Minute)
		v = judged(providererr.KindUnexplained, 0)
		r.ask(flash, v)
		if v.Kind != providererr.KindUnexplained {
			t.Error("what was seen minutes ago decides")
		}
	})
}

func TestUnexplainedRefusalAfterAnAnswerIsALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 3, onlyAntigravity(Options{}))
		r.ask(flash, judged(providererr.KindUnexplained, 0))
		passes(time.Second / 2)
		r.sees("answered", r.ask(flash, nil), "b")
		v := judged(providererr.KindUnexplained, 0)
		r.ask(flash, v)
		if v.Kind != providererr.KindUnexplained {
			t.Errorf("%s, although somebody was answered in between", v.Kind)
		}
	})
}

func TestUnexplainedRefusalWithQuotaLeftIsNoLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 1, onlyAntigravity(Options{MaxWait: time.Minute}))
		r.report("a", flash.Model, 0.6)
		v := judged(providererr.KindUnexplained, 0)
		r.ask(flash, v)
		again := judged(providererr.KindUnexplained, 0)
		passes(2 * time.Second)
		r.ask(flash, again)
		if v.Kind != providererr.KindUnexplained || again.Kind != providererr.KindIdentity {
			t.Errorf("first %s, then %s", v.Kind, again.Kind)
		}
		r.sees("rests", restOf(r.Status()[0]), "")
	})
}

func TestAccountsThatAreLockedStopAtOnce(t *testing.T) {
	states := map[providererr.Kind]string{providererr.KindVerification: perigee.AccountVerification, providererr.KindBan: perigee.AccountBanned,
		providererr.KindIneligible: perigee.AccountBanned, providererr.KindSignedOut: perigee.AccountSignedOut}
	for kind, state := range states {
		synctest.Test(t, func(t *testing.T) {
			r := newPoolRig(t, 4, Options{})
			first, second, b := judged(kind, 0), judged(kind, 0), r.caller(in("s", opus))
			r.sees("first", b.ask(first), "a")
			r.sees("second", b.ask(second), "b")
			if first.Scope != providererr.ScopeAccount || second.Scope != providererr.ScopeNone {
				t.Errorf("%s: blame %s, then %s: the call may burn a third account", kind, first.Scope, second.Scope)
			}
			r.sees("told", strings.Join(r.states, ", "), "a "+state+", b "+state)
			if err := r.Clear("c"); err != nil { // the breaker is not tested here
				t.Fatal(err)
			}
			r.sees("other models too", r.ask(flash, nil), "c")
			r.announce()
			r.sees("the stores may be behind", r.ask(in("s", opus), nil), "c")
			r.sees("state", r.Status()[0].State, state)
			r.sources[0].change(func(s *perigee.SignIn) { s.Generation++ })
			r.announce()
			r.enable(1, false)
			r.enable(1, true)
			for _, i := range []int{0, 1} {
				r.sees("renewed", r.Status()[i].State, perigee.AccountReady)
			}
		})
	}
}

// Trap 78: a model that an account has not got says nothing about the account.
func TestModelThatIsNotThereRestsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 3, onlyAntigravity(Options{}))
		first, second, b := judged(providererr.KindNotFound, 0), judged(providererr.KindNotFound, 0), r.caller(flash)
		b.ask(first)
		r.sees("other models", r.ask(Request{Model: "gemini-3-pro-low", Family: "gemini-3"}, nil), "a")
		b.ask(second)
		if first.Scope != providererr.ScopeAccountModel || second.Scope != providererr.ScopeNone {
			t.Errorf("blame %s, then %s", first.Scope, second.Scope)
		}
		r.ask(flash, judged(providererr.KindNotFound, 0))
		if e := r.refused(flash); e.Class != perigee.ClassNotFound || e.Retry != 0 {
			t.Errorf("nobody has it: %s, %s", e.Class, e)
		}
		passes(2 * time.Minute)
		r.sees("a guess is doubted", r.ask(flash, judged(providererr.KindNotFound, 0)), "a")
		r.refused(flash)
		passes(9 * time.Minute)
		r.sees("over", r.ask(flash, nil), "c")
	})
}

// Trap 84: only what was guessed is tried before its time.
func TestGuessedRestsAreProbedAndToldOnesTrusted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 2, onlyAntigravity(Options{MaxWait: time.Second}))
		r.ask(flash, judged(providererr.KindProject, 0))
		r.ask(flash, judged(providererr.KindProject, 0))
		if e := r.refused(flash); e.Class != perigee.ClassForbidden {
			t.Errorf("%s", e.Class)
		}
		passes(61 * time.Second)
		l := r.take(flash)
		r.sees("probe", name(l), "a")
		r.refused(flash) // one at a time
		l.Done(nil)
		r.sees("it was not needed any more", r.asks(flash, 2), "aa")

		r = newPoolRig(t, 2, onlyAntigravity(Options{MaxWait: time.Second}))
		r.ask(flash, judged(providererr.KindQuota, 168*time.Hour))
		r.ask(flash, judged(providererr.KindQuota, 168*time.Hour))
		passes(believed - time.Minute)
		r.refused(flash)
		passes(time.Minute)
		l = r.take(flash)
		r.sees("after an hour it is doubted", name(l), "a")
		r.refused(flash) // one at a time
		l.Done(judged(providererr.KindQuota, 167*time.Hour))
		passes(time.Minute)
		r.sees("the other one", r.ask(flash, judged(providererr.KindQuota, 167*time.Hour)), "b")
		passes(believed - 2*time.Minute)
		r.refused(flash)
		passes(time.Minute)
		r.sees("and after another hour again", r.ask(flash, nil), "a")
		r.sees("it was not needed any more", r.asks(flash, 2), "aa")
	})
}

func TestQuotaThatReturnsWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 1, onlyAntigravity(Options{SoftQuota: 0.9}))
		r.ask(flash, judged(providererr.KindQuota, 24*time.Hour))
		r.ReportQuota("a", []perigee.QuotaRow{{Pool: PoolAntigravity, Model: flash.Model, Remaining: 1}}, time.Now().Add(-time.Second))
		r.refused(flash) // that was before
		passes(20 * time.Minute)
		r.report("a", flash.Model, 0)
		r.refused(flash)
		r.report("a", opus.Model, 1)
		r.refused(flash)
		r.ReportQuota("a", []perigee.QuotaRow{{Pool: PoolAntigravity, Model: flash.Model, Remaining: 1}}, time.Now().Add(-16*time.Minute))
		r.refused(flash) // too old
		r.ReportQuota("a", []perigee.QuotaRow{{Pool: PoolAntigravity, Model: flash.Model}, {Pool: PoolAntigravity, Model: "gemini-3-pro-low", Remaining: 1}}, time.Now())
		r.refused(flash) // another model
		r.ReportQuota("a", []perigee.QuotaRow{{Pool: PoolAntigravity, Model: flash.Model, Remaining: 0.4}, {Pool: PoolAntigravity, Model: "gemini-3-pro-low"}}, time.Now())
		r.sees("returned", r.ask(flash, nil), "a")
		r.ask(flash, judged(providererr.KindRate, time.Minute))
		passes(time.Second)
		r.report("a", flash.Model, 0.4)
		r.refused(flash) // a pace is no quota
		if err := r.Clear("a"); err != nil {
			t.Fatal(err)
		}
		r.sees("cleared", r.ask(flash, nil), "a")
	})
}

func TestRefusalSaysWhatTheAccountsWaitFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 4, onlyAntigravity(Options{MaxWait: time.Minute}))
		r.enable(3, false)
		r.ask(flash, judged(providererr.KindQuota, 3*time.Hour))
		r.ask(flash, judged(providererr.KindQuota, 2*time.Hour))
		r.ask(flash, judged(providererr.KindBan, 0))
		e := r.refused(flash)
		r.sees("message", e.Message, "no account is usable for gemini-3-flash; of 4: 2 out of quota (back in 2h0m1s), 1 banned, 1 disabled")
		r.sees("next", e.Hint, "wait until 2000-01-01 02:00:01 UTC (2h0m1s), or add another account with `perigee login`; `perigee account explain gemini-3-flash` says more")
		if e.Class != perigee.ClassExhausted || e.Retry != 2*time.Hour+grace {
			t.Errorf("%s after %s", e.Class, e.Retry)
		}
		r = newPoolRig(t, 0, Options{})
		if e := r.refused(flash); e.Class != perigee.ClassUnauthenticated || !strings.Contains(e.Hint, "perigee login") {
			t.Errorf("%s: %v", e.Class, e)
		}
	})
}

func TestAccountWithoutATokenIsReplacedBeforeTheCallSeesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 3, Options{MaxWait: time.Minute})
		r.sources[0].fail(perigee.Errorf(perigee.ClassUnauthenticated, "gone"))
		r.sources[1].fail(errors.New("no network"))
		start := time.Now()
		r.sees("account", r.ask(flash, nil), "c")
		r.sees("told", strings.Join(r.states, ", "), "a signed_out")
		r.sources[2].fail(perigee.Errorf(perigee.ClassUnavailable, "no network either"))
		if e := r.refused(flash); e.Class != perigee.ClassUnavailable || !strings.Contains(e.Message, "no network either") {
			t.Errorf("%s: %v", e.Class, e)
		}
		if waited := time.Since(start); waited != 0 {
			t.Errorf("waited %s for a sign-in server that is down", waited)
		}
		r.sources[1].fail(nil)
		passes(2 * time.Second)
		r.sees("back", r.ask(flash, nil), "b")
		r.sources[1].fail(perigee.Errorf(perigee.ClassIdentity, "not this client"))
		if e := r.refused(flash); e.Class != perigee.ClassIdentity {
			t.Errorf("%s", e.Class)
		}
		r.sources[1].fail(nil)
		r.sees("nobody's fault", r.ask(flash, nil), "b")

		r = newPoolRig(t, 2, onlyAntigravity(Options{MaxWait: time.Minute}))
		r.ask(flash, judged(providererr.KindRate, 10*time.Second))
		r.sources[1].fail(errors.New("no network"))
		start = time.Now()
		r.sees("waits for one that has a token", r.ask(flash, nil), "a")
		if waited := time.Since(start); waited != 10*time.Second+grace {
			t.Errorf("waited %s", waited)
		}
	})
}

// tokenRefusal is how the sign-in wraps what the provider said.
type tokenRefusal struct{ providererr.Diagnosis }

func (r *tokenRefusal) Error() string { return r.Diagnosis.Error.Error() }
func (r *tokenRefusal) Unwrap() error { return r.Diagnosis.Error }

func TestWhatTheSignInIsToldStopsAnAccount(t *testing.T) {
	for kind, want := range map[providererr.Kind]string{providererr.KindBan: "banned", providererr.KindIneligible: "banned", providererr.KindSignedOut: "signed_out",
		providererr.KindVerification: "verification", providererr.KindUnavailable: "ready", providererr.KindProject: "ready"} {
		r := newPoolRig(t, 2, Options{})
		cause := &tokenRefusal{*judged(kind, 0)}
		r.sources[0].fail(&perigee.Error{Class: perigee.ClassForbidden, Message: "no token", Cause: cause})
		r.sees(string(kind), r.ask(flash, nil), "b")
		r.sees(string(kind), r.Status()[0].State, want)
	}
	r := newPoolRig(t, 2, Options{})
	r.sources[0].fail(&tokenRefusal{*judged(providererr.KindOAuthClient, 0)})
	if _, err := r.Acquire(flash).Next(t.Context()); err == nil || len(r.states) > 0 {
		t.Errorf("%v; %q", err, r.states)
	}
}

func TestRefusedTokenIsRenewed(t *testing.T) {
	r := newPoolRig(t, 1, Options{})
	l := r.take(flash)
	token, err := l.Token(t.Context())
	if err != nil || token.Reveal() != "token of a" || l.Account().Project != "project-a" {
		t.Errorf("%v %s", err, l.Account().Project)
	}
	l.Refused(token)
	if r.sources[0].refused != 1 {
		t.Error("the source was not told")
	}
	r.sources[0].fail(errors.New("no"))
	if _, err := l.Token(t.Context()); err == nil {
		t.Error("the token that was refused was given out again")
	}
}
