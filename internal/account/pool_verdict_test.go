package account

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"perigee"
)

// rests is for how long the account of a rig with one account cannot be asked.
func (r *poolRig) rests(want Want) time.Duration {
	r.t.Helper()
	l, err := r.Lend(r.t.Context(), want)
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
		r.ask(flash, verdict(KindRate, 40*time.Second))
		if got := r.rests(flash); got != 40*time.Second+grace {
			t.Errorf("rests for %s", got)
		}
		passes(40*time.Second + grace)
		r.sees("over", r.ask(flash, nil), "a")
		r.ask(flash, verdict(KindQuota, 90*24*time.Hour))
		if got := r.rests(flash); got != MaxDelay+grace {
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
				r.ask(flash, verdict(KindUnexplained, 0))
				if got := r.rests(flash); got != d {
					t.Fatalf("rests for %s, want %s", got, d)
				}
				passes(d)
			}
		}
		climb(time.Second, 2*time.Second, 4*time.Second)
		r.ask(flash, verdict(KindUnavailable, 0))
		r.ask(flash, verdict(KindCapacity, 0))
		r.ask(flash, verdict(KindVersion, 0))
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
			l.Done(verdict(KindUnexplained, 0))
		}
		passes(2500 * time.Millisecond)
		loans[4].Done(verdict(KindUnexplained, 0)) // it was under way before the first failed
		if got := r.rests(flash); got != time.Second {
			t.Errorf("rests for %s", got)
		}
		passes(time.Second)
		r.ask(flash, verdict(KindUnexplained, 0))
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
		r.ask(flash, verdict(KindProject, 0))
		other.Done(verdict(KindRate, 10*time.Second))
		if got := r.rests(flash); got != 10*time.Second+grace {
			t.Errorf("rests for %s", got)
		}
		another.Done(verdict(KindProject, 0))
		if got := r.rests(flash); got != 10*time.Second+grace {
			t.Errorf("rests for %s after a guess", got)
		}
	})
}

func TestTrailsGetCold(t *testing.T) {
	m, l := &member{}, &lane{}
	kept := trails{}
	kept.leave(flash, trail{member: m, lane: l, waited: 1, at: longAgo})
	kept.leave(flash, trail{member: m, lane: l, waited: 2, at: longAgo + trailAge})
	if got := kept.follow(flash, longAgo); got.member != nil {
		t.Error("a new call follows an old one")
	}
	if got := kept.follow(tried(1, flash), longAgo+trailAge+1); got.waited != 2 {
		t.Errorf("followed %+v", got)
	}
	if got := kept.follow(tried(1, flash), longAgo+trailAge+1); got.member != nil || len(kept) != 0 {
		t.Errorf("followed %+v, %d left", got, len(kept))
	}
	for i := range 2 * maxTrails {
		kept.leave(in(string(rune(i)), flash), trail{at: longAgo + instant(i)*trailAge/100})
	}
	if len(kept) > maxTrails {
		t.Errorf("%d trails are kept", len(kept))
	}
}

func TestBriefDelayIsWaitedForOnTheSameAccount(t *testing.T) {
	for _, selection := range []string{Sticky, RoundRobin, Hybrid} {
		for _, session := range []string{"", "s"} {
			synctest.Test(t, func(t *testing.T) {
				r := newPoolRig(t, 3, Options{Selection: selection, MaxWait: time.Minute})
				want, start := in(session, flash), time.Now()
				home := r.ask(want, verdict(KindRate, 2*time.Second))
				l := r.take(tried(1, want))
				r.sees("account", name(l), home)
				if waited := time.Since(start); waited != 2*time.Second+grace {
					t.Errorf("waited %s", waited)
				}
				l.Done(verdict(KindRate, 4*time.Second))
				if got := r.ask(tried(2, want), nil); got == home {
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
		for i := range 6 {
			got += r.ask(tried(i, in("s", flash)), verdict(KindRate, 2*time.Second))
		}
		r.sees("accounts", got, "aaaabb")
	})
}

func TestWithoutWaitingABriefDelayMovesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 2, Options{})
		r.ask(flash, verdict(KindRate, 2*time.Second))
		r.sees("next", r.ask(tried(1, flash), nil), "b")
	})
}

func TestNobodyIsCooledForWhatIsNobodysFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 2, Options{})
		for kind, m := range meanings {
			switch m.blame {
			case ScopeNobody, ScopeRequest, ScopeHost, ScopeModel:
				r.sees(string(kind), r.ask(flash, verdict(kind, time.Hour)), "a")
			}
		}
		r.sees("afterwards", r.ask(flash, nil), "a")
	})
}

func TestUnexplainedRefusalBurnsTwoAccountsAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 5, onlyAntigravity(Options{}))
		v := verdict(KindUnexplained, 0)
		r.sees("first", r.ask(flash, v), "a")
		if v.Kind != KindUnexplained {
			t.Error("one account alone proves nothing")
		}
		v = verdict(KindUnexplained, 0)
		r.sees("second", r.ask(tried(1, flash), v), "b")
		if v.Kind != KindIdentity || v.Blame != ScopeNobody || v.Error.Class != perigee.ClassIdentity {
			t.Errorf("two accounts were refused alike: %s, %s", v.Kind, v.Blame)
		}
		for _, s := range r.Status() {
			r.sees("rests of "+s.Email, restOf(s), "")
		}
		v = verdict(KindUnexplained, 0)
		r.ask(flash, v)
		passes(2 * time.Minute)
		v = verdict(KindUnexplained, 0)
		r.ask(flash, v)
		if v.Kind != KindUnexplained {
			t.Error("what was seen minutes ago decides")
		}
	})
}

func TestUnexplainedRefusalAfterAnAnswerIsALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 3, onlyAntigravity(Options{}))
		r.ask(flash, verdict(KindUnexplained, 0))
		passes(time.Second / 2)
		r.sees("answered", r.ask(flash, nil), "b")
		v := verdict(KindUnexplained, 0)
		r.ask(flash, v)
		if v.Kind != KindUnexplained {
			t.Errorf("%s, although somebody was answered in between", v.Kind)
		}
	})
}

func TestUnexplainedRefusalWithQuotaLeftIsNoLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 1, onlyAntigravity(Options{MaxWait: time.Minute}))
		r.report("a", flash.Model, 0.6)
		v := verdict(KindUnexplained, 0)
		r.ask(flash, v)
		again := verdict(KindUnexplained, 0)
		passes(2 * time.Second)
		r.ask(flash, again)
		if v.Kind != KindUnexplained || again.Kind != KindIdentity {
			t.Errorf("first %s, then %s", v.Kind, again.Kind)
		}
		r.sees("rests", restOf(r.Status()[0]), "")
	})
}

func TestAccountsThatAreLockedStopAtOnce(t *testing.T) {
	states := map[Kind]string{KindVerification: perigee.AccountVerification, KindBan: perigee.AccountBanned,
		KindIneligible: perigee.AccountBanned, KindSignedOut: perigee.AccountSignedOut}
	for kind, state := range states {
		synctest.Test(t, func(t *testing.T) {
			r := newPoolRig(t, 4, Options{})
			first, second := verdict(kind, 0), verdict(kind, 0)
			r.sees("first", r.ask(in("s", opus), first), "a")
			r.sees("second", r.ask(tried(1, in("s", opus)), second), "b")
			if first.Blame != ScopeAccount || second.Blame != ScopeNobody {
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
		first, second := verdict(KindNotFound, 0), verdict(KindNotFound, 0)
		r.ask(flash, first)
		r.sees("other models", r.ask(Want{Model: "gemini-3-pro-low", Family: "gemini-3"}, nil), "a")
		r.ask(tried(1, flash), second)
		if first.Blame != ScopeAccountModel || second.Blame != ScopeNobody {
			t.Errorf("blame %s, then %s", first.Blame, second.Blame)
		}
		r.ask(flash, verdict(KindNotFound, 0))
		if e := r.refused(flash); e.Class != perigee.ClassNotFound || e.Retry != 0 {
			t.Errorf("nobody has it: %s, %s", e.Class, e)
		}
		passes(2 * time.Minute)
		r.sees("a guess is doubted", r.ask(flash, verdict(KindNotFound, 0)), "a")
		r.refused(flash)
		passes(9 * time.Minute)
		r.sees("over", r.ask(flash, nil), "c")
	})
}

// Trap 84: only what was guessed is tried before its time.
func TestGuessedRestsAreProbedAndToldOnesTrusted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 2, onlyAntigravity(Options{MaxWait: time.Second}))
		r.ask(flash, verdict(KindProject, 0))
		r.ask(flash, verdict(KindProject, 0))
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
		r.ask(flash, verdict(KindQuota, 168*time.Hour))
		r.ask(flash, verdict(KindQuota, 168*time.Hour))
		passes(believed - time.Minute)
		r.refused(flash)
		passes(time.Minute)
		l = r.take(flash)
		r.sees("after an hour it is doubted", name(l), "a")
		r.refused(flash) // one at a time
		l.Done(verdict(KindQuota, 167*time.Hour))
		passes(time.Minute)
		r.sees("the other one", r.ask(flash, verdict(KindQuota, 167*time.Hour)), "b")
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
		r.ask(flash, verdict(KindQuota, 24*time.Hour))
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
		r.ask(flash, verdict(KindRate, time.Minute))
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
		r.ask(flash, verdict(KindQuota, 3*time.Hour))
		r.ask(flash, verdict(KindQuota, 2*time.Hour))
		r.ask(flash, verdict(KindBan, 0))
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
		r.ask(flash, verdict(KindRate, 10*time.Second))
		r.sources[1].fail(errors.New("no network"))
		start = time.Now()
		r.sees("waits for one that has a token", r.ask(flash, nil), "a")
		if waited := time.Since(start); waited != 10*time.Second+grace {
			t.Errorf("waited %s", waited)
		}
	})
}

// tokenRefusal is how the sign-in wraps what the provider said.
type tokenRefusal struct{ Verdict }

func (r *tokenRefusal) Error() string { return r.Verdict.Error.Error() }
func (r *tokenRefusal) Unwrap() error { return r.Verdict.Error }

func TestWhatTheSignInIsToldStopsAnAccount(t *testing.T) {
	for kind, want := range map[Kind]string{KindBan: "banned", KindIneligible: "banned", KindSignedOut: "signed_out",
		KindVerification: "verification", KindUnavailable: "ready", KindProject: "ready"} {
		r := newPoolRig(t, 2, Options{})
		cause := &tokenRefusal{*verdict(kind, 0)}
		r.sources[0].fail(&perigee.Error{Class: perigee.ClassForbidden, Message: "no token", Cause: cause})
		r.sees(string(kind), r.ask(flash, nil), "b")
		r.sees(string(kind), r.Status()[0].State, want)
	}
	r := newPoolRig(t, 2, Options{})
	r.sources[0].fail(&tokenRefusal{*verdict(KindOAuthClient, 0)})
	if _, err := r.Lend(t.Context(), flash); err == nil || len(r.states) > 0 {
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
