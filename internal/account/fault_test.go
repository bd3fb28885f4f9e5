package account

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"perigee"
	"perigee/internal/verdict"
)

// call makes a call as its borrower would: it goes on as long as the verdicts let it. It says whom it asked, and how it ended.
func (r *poolRig) call(want Want, answers func(email string) *verdict.Verdict) (asked string, end *verdict.Verdict) {
	r.t.Helper()
	b := r.Borrow(want)
	for {
		l, err := b.Next(r.t.Context())
		if err != nil {
			return asked, end
		}
		asked += l.Email()
		end = answers(l.Email())
		l.Done(end)
		if end == nil || end.Blame == verdict.ScopeNobody {
			return asked, end
		}
	}
}

// failing fails some accounts, and answers the others.
func failing(kind verdict.Kind, accounts string) func(string) *verdict.Verdict {
	return func(email string) *verdict.Verdict {
		if strings.Contains(accounts, email) {
			return fault(kind)
		}
		return nil
	}
}

func TestAccountThatTheProviderFailsIsLeftForAnother(t *testing.T) {
	for _, selection := range []string{Sticky, RoundRobin, Hybrid} {
		for _, kind := range []verdict.Kind{verdict.KindUnavailable, verdict.KindOther, verdict.KindForbidden} {
			synctest.Test(t, func(t *testing.T) {
				r := newPoolRig(t, 3, onlyAntigravity(Options{Selection: selection}))
				start, asked := time.Now(), 0
				for i := range 12 {
					who, end := r.call(in(string(rune('0'+i)), flash), failing(kind, "a"))
					if end != nil || strings.HasSuffix(who, "a") {
						t.Errorf("%s, %s: call %d asked %s: %v", selection, kind, i, who, end)
					}
					asked += strings.Count(who, "a")
				}
				if asked > maxFaults || time.Since(start) != 0 {
					t.Errorf("%s, %s: a was asked %d times within %s", selection, kind, asked, time.Since(start))
				}
			})
		}
	}
}

// Sticky stays with whoever has answered, and so does the session: that the other failed the same call says enough.
func TestStickyMovesToWhoHasAnswered(t *testing.T) {
	r := newPoolRig(t, 3, onlyAntigravity(Options{}))
	r.sees("before", r.ask(in("s", flash), nil), "a")
	who, _ := r.call(in("s", flash), failing(verdict.KindUnavailable, "a"))
	r.sees("the call", who, "ab")
	r.sees("its session", r.ask(in("s", flash), nil), "b")
	r.sees("others", r.ask(in("t", flash), nil), "b")
	r.sees("not those who were elsewhere anyway", r.ask(opus, nil), "a")

	r = newPoolRig(t, 3, onlyAntigravity(Options{}))
	r.sees("before", r.ask(in("s", flash), nil), "a")
	who, end := r.call(in("s", flash), failing(verdict.KindUnavailable, "abc"))
	r.sees("a provider that is down", who, "ab")
	if end.Blame != verdict.ScopeNobody {
		t.Errorf("blame %s: a third may be asked", end.Blame)
	}
	r.sees("moves no session", r.ask(in("s", flash), nil), "a")
	r.sees("and nobody else", r.ask(in("t", flash), nil), "a")
}

// A provider that is down is asked with two accounts for each call, however many there are.
func TestProviderThatIsDownIsNotHammered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 20, Options{MaxWait: time.Minute})
		start := time.Now()
		for i := range 50 {
			if who, end := r.call(in(string(rune('0'+i)), flash), failing(verdict.KindUnavailable, "abcdefghijklmnopqrstuvwxyz")); len(who) != 2 || end == nil {
				t.Fatalf("call %d asked %s", i, who)
			}
			passes(time.Second)
		}
		if took := time.Since(start); took != 50*time.Second {
			t.Errorf("they waited %s", took-50*time.Second)
		}
	})
}

func TestOnlyAccountIsAskedOnceMoreAfterAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 1, onlyAntigravity(Options{}))
		start, times := time.Now(), 0
		who, end := r.call(flash, func(string) *verdict.Verdict {
			if times++; times == 1 {
				return fault(verdict.KindUnavailable)
			}
			return nil
		})
		if who != "aa" || end != nil || time.Since(start) != faultPause {
			t.Errorf("asked %s after %s: %v", who, time.Since(start), end)
		}
		for range 3 * maxFaults { // it is asked although it rests
			start := time.Now()
			if who, end := r.call(flash, failing(verdict.KindUnavailable, "a")); who != "aa" || end.Blame != verdict.ScopeNobody || time.Since(start) != faultPause {
				t.Fatalf("asked %s after %s: %+v", who, time.Since(start), end)
			}
		}
		who, end = r.call(flash, failing(verdict.KindForbidden, "a"))
		if who != "a" || end.Kind != verdict.KindForbidden {
			t.Errorf("a refusal was asked for again: %s", who)
		}
		b := r.borrower(flash)
		b.ask(fault(verdict.KindUnavailable))
		ctx, cancel := context.WithTimeout(t.Context(), faultPause/2)
		defer cancel()
		if _, err := b.Next(ctx); !errors.Is(err, context.DeadlineExceeded) || r.members[0].lent != 0 {
			t.Errorf("who left: %v, %d lent", err, r.members[0].lent)
		}
	})
}

func TestFaultsInARowLetAnAccountRestWhileThereAreOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 2, onlyAntigravity(Options{MaxWait: time.Minute}))
		together := []Loan{r.take(flash), r.take(flash), r.take(flash), r.take(flash), r.take(flash)}
		passes(time.Second)
		for _, l := range together {
			l.Done(fault(verdict.KindUnavailable))
		}
		r.sees("what came together counts once", restOf(r.Status()[0]), "")
		for range maxFaults - 2 {
			passes(time.Second)
			r.ask(flash, fault(verdict.KindUnavailable))
		}
		r.sees("not yet", restOf(r.Status()[0]), "")
		passes(time.Second)
		r.ask(flash, fault(verdict.KindUnavailable))
		r.sees("now", restOf(r.Status()[0]), "[  unavailable]")
		r.sees("the other goes first", r.ask(flash, nil), "b")
		r.sees("and is the one that is used", r.Explain(flash.Model)[0].Email, "b")
		r.sees("explained", r.explained("a", flash.Model), "the provider keeps failing it")
		r.enable(1, false)
		if x := r.Explain(flash.Model)[0]; x.Email != "a" || !x.Chosen || !strings.Contains(x.Why, "nobody else") {
			t.Errorf("%+v", x)
		}
		start := time.Now()
		r.sees("without others it is asked", r.ask(flash, fault(verdict.KindUnavailable)), "a")
		if time.Since(start) != 0 {
			t.Errorf("after %s", time.Since(start))
		}
		passes(time.Second)
		r.sees("and answered", r.ask(flash, nil), "a")
		r.sees("which ends it", restOf(r.Status()[0]), "")

		for range maxFaults {
			passes(time.Second)
			r.ask(flash, fault(verdict.KindUnavailable))
		}
		r.sees("who is alone does not rest", restOf(r.Status()[0]), "")
		passes(time.Second)
		l := r.take(flash)
		r.enable(1, true)
		l.Done(fault(verdict.KindUnavailable))
		r.sees("with others it does", restOf(r.Status()[0]), "[  unavailable]")
		passes(faultRest)
		r.sees("and time ends it, too", restOf(r.Status()[0]), "")
		r = newPoolRig(t, 2, Options{})
		for range 2 * maxFaults {
			passes(faultAge + time.Second)
			r.sees("hours apart", r.ask(flash, fault(verdict.KindUnavailable)), "a")
		}
		r.sees("what is hours apart is not in a row", restOf(r.Status()[0]), "")
	})
}

func TestNetworkThatIsDownIsNoAccountsFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 3, onlyAntigravity(Options{}))
		for range 3 * maxFaults {
			passes(time.Second)
			who, end := r.call(flash, func(string) *verdict.Verdict {
				v := fault(verdict.KindUnavailable)
				v.Blame = verdict.ScopeNetwork
				return v
			})
			if len(who) != 2 || end.Blame != verdict.ScopeNobody {
				t.Errorf("asked %s: %s", who, end.Blame)
			}
		}
		for _, a := range r.Status() {
			r.sees("rests of "+a.Email, restOf(a), "")
		}
	})
}

// A token that is refused in the middle of a call, and cannot be renewed because the sign-in server has a hiccup, is no
// reason to fail while others have one.
func TestAccountWithoutANewTokenGivesWayDuringACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hiccup := &tokenRefusal{*judged(verdict.KindUnavailable, 0)}
		gone := map[string]error{"a": hiccup, "b": perigee.Errorf(perigee.ClassUnavailable, "no network"), "c": errors.New("reset")}
		renewing := func(email string) *verdict.Verdict {
			if err := gone[email]; err != nil {
				v := WithoutToken(err)
				return &v
			}
			return nil
		}
		r := newPoolRig(t, 3, onlyAntigravity(Options{MaxWait: time.Minute}))
		delete(gone, "c")
		start := time.Now()
		who, end := r.call(flash, renewing)
		if who != "abc" || end != nil || time.Since(start) != 0 {
			t.Errorf("asked %s after %s: %v", who, time.Since(start), end)
		}
		r.sees("a rest as before a call", restOf(r.Status()[0]), "[  no_token]")

		r = newPoolRig(t, 5, onlyAntigravity(Options{MaxWait: time.Minute}))
		for _, name := range []string{"c", "d", "e"} {
			gone[name] = hiccup
		}
		who, end = r.call(flash, renewing)
		if who != "abc" || end.Blame != verdict.ScopeNobody || end.Error.Class != perigee.ClassUnavailable || time.Since(start) != 0 {
			t.Errorf("asked %s after %s: %+v", who, time.Since(start), end)
		}

		r = newPoolRig(t, 1, onlyAntigravity(Options{MaxWait: time.Minute}))
		b := r.borrower(flash)
		b.ask(renewing("a"))
		if e := b.refused(); e.Class != perigee.ClassUnavailable || !strings.Contains(e.Message, "as it said") || time.Since(start) != 0 {
			t.Errorf("the only one, after %s: %v", time.Since(start), e)
		}
	})
}

func TestWithoutTokenSaysWhoIsToBlame(t *testing.T) {
	for _, c := range []struct {
		err   error
		kind  verdict.Kind
		blame verdict.Scope
	}{
		{&tokenRefusal{*judged(verdict.KindSignedOut, 0)}, verdict.KindSignedOut, verdict.ScopeAccount},
		{&tokenRefusal{*judged(verdict.KindBan, 0)}, verdict.KindBan, verdict.ScopeAccount},
		{&tokenRefusal{*judged(verdict.KindOAuthClient, 0)}, verdict.KindOAuthClient, verdict.ScopeNobody},
		{&tokenRefusal{*judged(verdict.KindUnavailable, 0)}, verdict.KindNoToken, verdict.ScopeAccount},
		{perigee.Errorf(perigee.ClassUnauthenticated, "gone"), verdict.KindSignedOut, verdict.ScopeAccount},
		{perigee.Errorf(perigee.ClassIdentity, "not this client"), verdict.KindOAuthClient, verdict.ScopeNobody},
		{perigee.Errorf(perigee.ClassUnauthenticated, "two were refused: %w", ErrLeftAlone), verdict.KindNoToken, verdict.ScopeAccount},
		{errors.New("reset"), verdict.KindNoToken, verdict.ScopeAccount},
	} {
		if v := WithoutToken(c.err); v.Kind != c.kind || v.Blame != c.blame || v.Error == nil {
			t.Errorf("%v: %s, %s", c.err, v.Kind, v.Blame)
		}
	}
	r := newPoolRig(t, 1, Options{})
	v := WithoutToken(perigee.Errorf(perigee.ClassUnauthenticated, "two were refused: %w", ErrLeftAlone))
	r.ask(flash, &v)
	r.sees("who is left alone does not rest", restOf(r.Status()[0]), "")
}
