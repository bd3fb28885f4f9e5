package account

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"perigee"
	"perigee/internal/verdict"
)

// rests is for how long the account of a rig with one account cannot be asked.
func (r *poolRig) rests(want Want) time.Duration {
	r.t.Helper()
	l, err := r.Borrow(want).Next(r.t.Context())
	if err == nil {
		l.(*loan).release()
		return 0
	}
	return perigee.AsError(err).Retry
}

// Trap 76: who comes back at the very moment is refused again.
func TestToldDelaysAreKeptWithSomeGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 1, onlyAntigravity(Options{}))
		r.ask(flash, judged(verdict.KindRate, 40*time.Second))
		if got := r.rests(flash); got != 40*time.Second+grace {
			t.Errorf("rests for %s", got)
		}
		passes(40*time.Second + grace)
		r.sees("over", r.ask(flash, nil), "a")
		r.ask(flash, judged(verdict.KindQuota, 90*24*time.Hour))
		if got := r.rests(flash); got != verdict.MaxDelay+grace {
			t.Errorf("rests for %s", got)
		}
	})
}

// Trap 72: trouble of the provider's is no step of the ladder, and an answer leads back to its foot.
func TestLadderIsClimbedByUntoldLimitsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 1, onlyAntigravity(Options{}))
		climb := func(want ...time.Duration) {
			t.Helper()
			for _, d := range want {
				r.ask(flash, judged(verdict.KindUnexplained, 0))
				if got := r.rests(flash); got != d {
					t.Fatalf("rests for %s, want %s", got, d)
				}
				passes(d)
			}
		}
		climb(time.Second, 2*time.Second, 4*time.Second)
		r.ask(flash, judged(verdict.KindUnavailable, 0))
		r.ask(flash, judged(verdict.KindCapacity, 0))
		r.ask(flash, judged(verdict.KindVersion, 0))
		climb(8*time.Second, 16*time.Second, 32*time.Second, time.Minute, time.Minute)
		r.ask(flash, nil)
		climb(time.Second)
	})
}

// Trap 73: calls that were refused together are one refusal.
func TestLimitsThatCameTogetherCountOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 1, onlyAntigravity(Options{}))
		var loans []Loan
		for range 6 {
			loans = append(loans, r.take(flash))
		}
		for _, l := range loans[:4] {
			l.Done(judged(verdict.KindUnexplained, 0))
		}
		passes(2500 * time.Millisecond)
		loans[4].Done(judged(verdict.KindUnexplained, 0)) // it was under way before the first failed
		if got := r.rests(flash); got != time.Second {
			t.Errorf("rests for %s", got)
		}
		passes(time.Second)
		r.ask(flash, judged(verdict.KindUnexplained, 0))
		loans[5].Done(nil) // an old success proves nothing
		if got := r.rests(flash); got != 2*time.Second {
			t.Errorf("rests for %s", got)
		}
	})
}

func TestWhatTheProviderTellsReplacesAGuess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 1, onlyAntigravity(Options{}))
		other, another := r.take(flash), r.take(flash)
		r.ask(flash, judged(verdict.KindProject, 0))
		other.Done(judged(verdict.KindRate, 10*time.Second))
		if got := r.rests(flash); got != 10*time.Second+grace {
			t.Errorf("rests for %s", got)
		}
		another.Done(judged(verdict.KindProject, 0))
		if got := r.rests(flash); got != 10*time.Second+grace {
			t.Errorf("rests for %s after a guess", got)
		}
	})
}

// Two calls that want the same are not taken for each other, and one that takes its time is not forgotten.
func TestCallsKeepTheirOwnPast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 4, onlyAntigravity(Options{}))
		one, other := r.borrower(in("s", flash)), r.borrower(in("s", flash))
		lost := func(b borrower, account string, blame verdict.Scope) {
			t.Helper()
			v := judged(verdict.KindNotFound, 0)
			if got := b.ask(v); got != account || v.Blame != blame {
				t.Errorf("%s was asked, and %s blamed", got, v.Blame)
			}
		}
		lost(one, "a", verdict.ScopeAccountModel)
		lost(other, "b", verdict.ScopeAccountModel)
		passes(time.Minute)
		lost(one, "c", verdict.ScopeNobody)
		lost(other, "d", verdict.ScopeNobody)
	})
}

func TestBriefDelayIsWaitedForOnTheSameAccount(t *testing.T) {
	for _, selection := range []string{Sticky, RoundRobin, Hybrid} {
		for _, session := range []string{"", "s"} {
			synctest.Test(t, func(t *testing.T) {
				r := newPoolRig(t, 3, Options{Selection: selection, MaxWait: time.Minute})
				b, start := r.borrower(in(session, flash)), time.Now()
				home := b.ask(judged(verdict.KindRate, 2*time.Second))
				l := b.take()
				r.sees("account", name(l), home)
				if waited := time.Since(start); waited != 2*time.Second+grace {
					t.Errorf("waited %s", waited)
				}
				l.Done(judged(verdict.KindRate, 4*time.Second))
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
		b := r.borrower(in("s", flash))
		for range 6 {
			got += b.ask(judged(verdict.KindRate, 2*time.Second))
		}
		r.sees("accounts", got, "aaaabb")
	})
}

func TestWithoutWaitingABriefDelayMovesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 2, Options{})
		b := r.borrower(flash)
		b.ask(judged(verdict.KindRate, 2*time.Second))
		r.sees("next", b.ask(nil), "b")
	})
}

func TestNobodyIsCooledForWhatIsNobodysFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 2, Options{})
		for _, kind := range []verdict.Kind{verdict.KindCapacity, verdict.KindVersion, verdict.KindIdentity, verdict.KindOAuthClient, verdict.KindForbidden,
			verdict.KindLocation, verdict.KindEndpoint, verdict.KindUnimplemented, verdict.KindUnavailable, verdict.KindOther, verdict.KindBadRequest, verdict.KindPromptTooLong} {
			r.sees(string(kind), r.ask(flash, judged(kind, time.Hour)), "a")
		}
		r.sees("afterwards", r.ask(flash, nil), "a")
	})
}

func TestUnexplainedRefusalBurnsTwoAccountsAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 5, onlyAntigravity(Options{}))
		b, v := r.borrower(flash), judged(verdict.KindUnexplained, 0)
		r.sees("first", b.ask(v), "a")
		if v.Kind != verdict.KindUnexplained {
			t.Error("one account alone proves nothing")
		}
		v = judged(verdict.KindUnexplained, 0)
		r.sees("second", b.ask(v), "b")
		if v.Kind != verdict.KindIdentity || v.Blame != verdict.ScopeNobody || v.Error.Class != perigee.ClassIdentity {
			t.Errorf("two accounts were refused alike: %s, %s", v.Kind, v.Blame)
		}
		for _, s := range r.Status() {
			r.sees("rests of "+s.Email, restOf(s), "")
		}
		v = judged(verdict.KindUnexplained, 0)
		r.ask(flash, v)
		passes(2 * time.Minute)
		v = judged(verdict.KindUnexplained, 0)
		r.ask(flash, v)
		if v.Kind != verdict.KindUnexplained {
			t.Error("what was seen minutes ago decides")
		}
	})
}

func TestUnexplainedRefusalAfterAnAnswerIsALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 3, onlyAntigravity(Options{}))
		r.ask(flash, judged(verdict.KindUnexplained, 0))
		passes(time.Second / 2)
		r.sees("answered", r.ask(flash, nil), "b")
		v := judged(verdict.KindUnexplained, 0)
		r.ask(flash, v)
		if v.Kind != verdict.KindUnexplained {
			t.Errorf("%s, although somebody was answered in between", v.Kind)
		}
	})
}

func TestUnexplainedRefusalWithQuotaLeftIsNoLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 1, onlyAntigravity(Options{MaxWait: time.Minute}))
		r.report("a", flash.Model, 0.6)
		v := judged(verdict.KindUnexplained, 0)
		r.ask(flash, v)
		again := judged(verdict.KindUnexplained, 0)
		passes(2 * time.Second)
		r.ask(flash, again)
		if v.Kind != verdict.KindUnexplained || again.Kind != verdict.KindIdentity {
			t.Errorf("first %s, then %s", v.Kind, again.Kind)
		}
		r.sees("rests", restOf(r.Status()[0]), "")
	})
}

func TestAccountsThatAreLockedStopAtOnce(t *testing.T) {
	states := map[verdict.Kind]string{verdict.KindVerification: perigee.AccountVerification, verdict.KindBan: perigee.AccountBanned,
		verdict.KindIneligible: perigee.AccountBanned, verdict.KindSignedOut: perigee.AccountSignedOut}
	for kind, state := range states {
		synctest.Test(t, func(t *testing.T) {
			r := newPoolRig(t, 4, Options{})
			first, second, b := judged(kind, 0), judged(kind, 0), r.borrower(in("s", opus))
			r.sees("first", b.ask(first), "a")
			r.sees("second", b.ask(second), "b")
			if first.Blame != verdict.ScopeAccount || second.Blame != verdict.ScopeNobody {
				t.Errorf("%s: blame %s, then %s: the call may burn a third account", kind, first.Blame, second.Blame)
			}
			r.sees("told", strings.Join(r.states, ", "), "a "+state+", b "+state)
			if err := r.Clear("c"); err != nil { // nobody is to be spared here
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
		first, second, b := judged(verdict.KindNotFound, 0), judged(verdict.KindNotFound, 0), r.borrower(flash)
		b.ask(first)
		r.sees("other models", r.ask(Want{Model: "gemini-3-pro-low", Family: "gemini-3"}, nil), "a")
		b.ask(second)
		if first.Blame != verdict.ScopeAccountModel || second.Blame != verdict.ScopeNobody {
			t.Errorf("blame %s, then %s", first.Blame, second.Blame)
		}
		r.ask(flash, judged(verdict.KindNotFound, 0))
		if e := r.refused(flash); e.Class != perigee.ClassNotFound || e.Retry != 0 {
			t.Errorf("nobody has it: %s, %s", e.Class, e)
		}
		passes(2 * time.Minute)
		r.sees("a guess is doubted", r.ask(flash, judged(verdict.KindNotFound, 0)), "a")
		r.refused(flash)
		passes(9 * time.Minute)
		r.sees("over", r.ask(flash, nil), "c")
	})
}

// Trap 84: only what was guessed is tried before its time.
func TestGuessedRestsAreProbedAndToldOnesTrusted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 2, onlyAntigravity(Options{MaxWait: time.Second}))
		r.ask(flash, judged(verdict.KindProject, 0))
		r.ask(flash, judged(verdict.KindProject, 0))
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
		r.ask(flash, judged(verdict.KindQuota, 168*time.Hour))
		r.ask(flash, judged(verdict.KindQuota, 168*time.Hour))
		passes(believed - time.Minute)
		r.refused(flash)
		passes(time.Minute)
		l = r.take(flash)
		r.sees("after an hour it is doubted", name(l), "a")
		r.refused(flash) // one at a time
		l.Done(judged(verdict.KindQuota, 167*time.Hour))
		passes(time.Minute)
		r.sees("the other one", r.ask(flash, judged(verdict.KindQuota, 167*time.Hour)), "b")
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
		r.ask(flash, judged(verdict.KindQuota, 24*time.Hour))
		r.ReportQuota("a", []perigee.Quota{{Model: flash.Model, Remaining: 1}}, time.Now().Add(-time.Second))
		r.refused(flash) // that was before
		passes(20 * time.Minute)
		r.report("a", flash.Model, 0)
		r.refused(flash)
		r.report("a", opus.Model, 1)
		r.refused(flash)
		r.ReportQuota("a", []perigee.Quota{{Model: flash.Model, Remaining: 1}}, time.Now().Add(-16*time.Minute))
		r.refused(flash) // too old
		r.ReportQuota("a", []perigee.Quota{{Model: flash.Model}, {Model: "gemini-3-pro-low", Remaining: 1}}, time.Now())
		r.refused(flash) // another model
		r.ReportQuota("a", []perigee.Quota{{Model: flash.Model, Remaining: 0.4}, {Model: "gemini-3-pro-low"}}, time.Now())
		r.sees("returned", r.ask(flash, nil), "a")
		r.ask(flash, judged(verdict.KindRate, time.Minute))
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
		r.ask(flash, judged(verdict.KindQuota, 3*time.Hour))
		r.ask(flash, judged(verdict.KindQuota, 2*time.Hour))
		r.ask(flash, judged(verdict.KindBan, 0))
		e := r.refused(flash)
		r.sees("message", e.Message, "no account is usable for gemini-3-flash; of 4: 2 out of quota (back in 2h0m1s), 1 banned, 1 disabled")
		r.sees("next", e.Next, "wait until 2000-01-01 02:00:01 UTC (2h0m1s), or add another account with `perigee login`; `perigee account explain gemini-3-flash` says more")
		if e.Class != perigee.ClassExhausted || e.Retry != 2*time.Hour+grace {
			t.Errorf("%s after %s", e.Class, e.Retry)
		}
		r = newPoolRig(t, 0, Options{})
		if e := r.refused(flash); e.Class != perigee.ClassUnauthenticated || !strings.Contains(e.Next, "perigee login") {
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
		r.ask(flash, judged(verdict.KindRate, 10*time.Second))
		r.sources[1].fail(errors.New("no network"))
		start = time.Now()
		r.sees("waits for one that has a token", r.ask(flash, nil), "a")
		if waited := time.Since(start); waited != 10*time.Second+grace {
			t.Errorf("waited %s", waited)
		}
	})
}

// tokenRefusal is how the sign-in wraps what the provider said.
type tokenRefusal struct{ verdict.Verdict }

func (r *tokenRefusal) Error() string { return r.Verdict.Error.Error() }
func (r *tokenRefusal) Unwrap() error { return r.Verdict.Error }

func TestWhatTheSignInIsToldStopsAnAccount(t *testing.T) {
	for kind, want := range map[verdict.Kind]string{verdict.KindBan: "banned", verdict.KindIneligible: "banned", verdict.KindSignedOut: "signed_out",
		verdict.KindVerification: "verification", verdict.KindUnavailable: "ready", verdict.KindProject: "ready"} {
		r := newPoolRig(t, 2, Options{})
		cause := &tokenRefusal{*judged(kind, 0)}
		r.sources[0].fail(&perigee.Error{Class: perigee.ClassForbidden, Message: "no token", Cause: cause})
		r.sees(string(kind), r.ask(flash, nil), "b")
		r.sees(string(kind), r.Status()[0].State, want)
	}
	r := newPoolRig(t, 2, Options{})
	r.sources[0].fail(&tokenRefusal{*judged(verdict.KindOAuthClient, 0)})
	if _, err := r.Borrow(flash).Next(t.Context()); err == nil || len(r.states) > 0 {
		t.Errorf("%v; %q", err, r.states)
	}
}

func TestRefusedTokenIsRenewed(t *testing.T) {
	r := newPoolRig(t, 1, Options{})
	l := r.take(flash)
	token, err := l.Token(t.Context())
	if err != nil || token.Reveal() != "token of a" || l.Project() != "project-a" {
		t.Errorf("%v %s", err, l.Project())
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
