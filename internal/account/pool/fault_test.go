package pool

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"perigee"
	"perigee/internal/adapt/providererr"
)

// call makes a call as its caller would: it goes on as long as the diagnoses let it. It returns the
// accounts that it asked, and how it ended.
func (r *poolRig) call(want Request, answers func(email string) *providererr.Diagnosis) (asked string, end *providererr.Diagnosis) {
	r.t.Helper()
	b := r.Acquire(want)
	for {
		l, err := b.Next(r.t.Context())
		if err != nil {
			return asked, end
		}
		asked += l.Account().Email
		end = answers(l.Account().Email)
		l.Done(end)
		if end == nil || end.Scope == providererr.ScopeNone {
			return asked, end
		}
	}
}

// failing fails some accounts, and answers the rest.
func failing(kind providererr.Kind, accounts string) func(string) *providererr.Diagnosis {
	return func(email string) *providererr.Diagnosis {
		if strings.Contains(accounts, email) {
			return fault(kind)
		}
		return nil
	}
}

func TestAccountThatTheProviderFailsIsLeftForAnother(t *testing.T) {
	for _, selection := range []string{Sticky, RoundRobin, Hybrid} {
		for _, kind := range []providererr.Kind{providererr.KindUnavailable, providererr.KindOther, providererr.KindForbidden} {
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

// Sticky stays with the account that has answered, and so does the session: the other one has
// failed the same call.
func TestStickyMovesToTheAccountThatHasAnswered(t *testing.T) {
	r := newPoolRig(t, 3, onlyAntigravity(Options{}))
	r.sees("before", r.ask(in("s", flash), nil), "a")
	who, _ := r.call(in("s", flash), failing(providererr.KindUnavailable, "a"))
	r.sees("the call", who, "ab")
	r.sees("its session", r.ask(in("s", flash), nil), "b")
	r.sees("others", r.ask(in("t", flash), nil), "b")
	r.sees("not those who were elsewhere anyway", r.ask(opus, nil), "a")

	r = newPoolRig(t, 3, onlyAntigravity(Options{}))
	r.sees("before", r.ask(in("s", flash), nil), "a")
	who, end := r.call(in("s", flash), failing(providererr.KindUnavailable, "abc"))
	r.sees("a provider that is down", who, "ab")
	if end.Scope != providererr.ScopeNone {
		t.Errorf("blame %s: a third may be asked", end.Scope)
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
			if who, end := r.call(in(string(rune('0'+i)), flash), failing(providererr.KindUnavailable, "abcdefghijklmnopqrstuvwxyz")); len(who) != 2 || end == nil {
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
		who, end := r.call(flash, func(string) *providererr.Diagnosis {
			if times++; times == 1 {
				return fault(providererr.KindUnavailable)
			}
			return nil
		})
		if who != "aa" || end != nil || time.Since(start) != faultPause {
			t.Errorf("asked %s after %s: %v", who, time.Since(start), end)
		}
		for range 3 * maxFaults { // it is asked although it rests
			start := time.Now()
			if who, end := r.call(flash, failing(providererr.KindUnavailable, "a")); who != "aa" || end.Scope != providererr.ScopeNone || time.Since(start) != faultPause {
				t.Fatalf("asked %s after %s: %+v", who, time.Since(start), end)
			}
		}
		who, end = r.call(flash, failing(providererr.KindForbidden, "a"))
		if who != "a" || end.Kind != providererr.KindForbidden {
			t.Errorf("a refusal was asked for again: %s", who)
		}
		b := r.caller(flash)
		b.ask(fault(providererr.KindUnavailable))
		ctx, cancel := context.WithTimeout(t.Context(), faultPause/2)
		defer cancel()
		if _, err := b.Next(ctx); !errors.Is(err, context.DeadlineExceeded) || r.members[0].leases != 0 {
			t.Errorf("who left: %v, %d lent", err, r.members[0].leases)
		}
	})
}

func TestFaultsInARowLetAnAccountRestWhileThereAreOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 2, onlyAntigravity(Options{MaxWait: time.Minute}))
		together := []Lease{r.take(flash), r.take(flash), r.take(flash), r.take(flash), r.take(flash)}
		passes(time.Second)
		for _, l := range together {
			l.Done(fault(providererr.KindUnavailable))
		}
		r.sees("what came together counts once", restOf(r.Status()[0]), "")
		for range maxFaults - 2 {
			passes(time.Second)
			r.ask(flash, fault(providererr.KindUnavailable))
		}
		r.sees("not yet", restOf(r.Status()[0]), "")
		passes(time.Second)
		r.ask(flash, fault(providererr.KindUnavailable))
		r.sees("now", restOf(r.Status()[0]), "[  unavailable]")
		r.sees("the other goes first", r.ask(flash, nil), "b")
		r.sees("and is the one that is used", r.Explain(flash)[0].Email, "b")
		r.sees("explained", r.explained("a", flash.Model), "the provider keeps answering with errors")
		r.enable(1, false)
		if x := r.Explain(flash)[0]; x.Email != "a" || !x.Chosen || !strings.Contains(x.Why, "no other account") {
			t.Errorf("%+v", x)
		}
		start := time.Now()
		r.sees("without others it is asked", r.ask(flash, fault(providererr.KindUnavailable)), "a")
		if time.Since(start) != 0 {
			t.Errorf("after %s", time.Since(start))
		}
		passes(time.Second)
		r.sees("and answered", r.ask(flash, nil), "a")
		r.sees("which ends it", restOf(r.Status()[0]), "")

		for range maxFaults {
			passes(time.Second)
			r.ask(flash, fault(providererr.KindUnavailable))
		}
		r.sees("who is alone does not rest", restOf(r.Status()[0]), "")
		passes(time.Second)
		l := r.take(flash)
		r.enable(1, true)
		l.Done(fault(providererr.KindUnavailable))
		r.sees("with others it does", restOf(r.Status()[0]), "[  unavailable]")
		passes(faultCooldown)
		r.sees("and time ends it, too", restOf(r.Status()[0]), "")
		r = newPoolRig(t, 2, Options{})
		for range 2 * maxFaults {
			passes(faultAge + time.Second)
			r.sees("hours apart", r.ask(flash, fault(providererr.KindUnavailable)), "a")
		}
		r.sees("what is hours apart is not in a row", restOf(r.Status()[0]), "")
	})
}

func TestNetworkThatIsDownIsNoAccountsFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 3, onlyAntigravity(Options{}))
		for range 3 * maxFaults {
			passes(time.Second)
			who, end := r.call(flash, func(string) *providererr.Diagnosis {
				v := fault(providererr.KindUnavailable)
				v.Scope = providererr.ScopeNetwork
				return v
			})
			if len(who) != 2 || end.Scope != providererr.ScopeNone {
				t.Errorf("asked %s: %s", who, end.Scope)
			}
		}
		for _, a := range r.Status() {
			r.sees("rests of "+a.Email, restOf(a), "")
		}
	})
}

// A token that is refused in the middle of a call, and cannot be renewed because the sign-in server
// has a hiccup, is no reason to fail while another account has one.
func TestAccountWithoutANewTokenGivesWayDuringACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hiccup := &tokenRefusal{*judged(providererr.KindUnavailable, 0)}
		gone := map[string]error{"a": hiccup, "b": perigee.Errorf(perigee.ClassUnavailable, "no network"), "c": errors.New("reset")}
		renewing := func(email string) *providererr.Diagnosis {
			if err := gone[email]; err != nil {
				v := TokenFailure(err)
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
		if who != "abc" || end.Scope != providererr.ScopeNone || end.Error.Class != perigee.ClassUnavailable || time.Since(start) != 0 {
			t.Errorf("asked %s after %s: %+v", who, time.Since(start), end)
		}

		r = newPoolRig(t, 1, onlyAntigravity(Options{MaxWait: time.Minute}))
		b := r.caller(flash)
		b.ask(renewing("a"))
		if e := b.refused(); e.Class != perigee.ClassUnavailable || !strings.Contains(e.Message, "as it said") || time.Since(start) != 0 {
			t.Errorf("the only one, after %s: %v", time.Since(start), e)
		}
	})
}

func TestTokenFailureHasAScope(t *testing.T) {
	for _, c := range []struct {
		err   error
		kind  providererr.Kind
		blame providererr.Scope
	}{
		{&tokenRefusal{*judged(providererr.KindSignedOut, 0)}, providererr.KindSignedOut, providererr.ScopeAccount},
		{&tokenRefusal{*judged(providererr.KindBan, 0)}, providererr.KindBan, providererr.ScopeAccount},
		{&tokenRefusal{*judged(providererr.KindOAuthClient, 0)}, providererr.KindOAuthClient, providererr.ScopeNone},
		{&tokenRefusal{*judged(providererr.KindUnavailable, 0)}, providererr.KindNoToken, providererr.ScopeAccount},
		{perigee.Errorf(perigee.ClassUnauthenticated, "gone"), providererr.KindSignedOut, providererr.ScopeAccount},
		{perigee.Errorf(perigee.ClassIdentity, "not this client"), providererr.KindOAuthClient, providererr.ScopeNone},
		{perigee.Errorf(perigee.ClassUnauthenticated, "two were refused: %w", providererr.ErrRefreshPaused), providererr.KindNoToken, providererr.ScopeAccount},
		{errors.New("reset"), providererr.KindNoToken, providererr.ScopeAccount},
	} {
		if v := TokenFailure(c.err); v.Kind != c.kind || v.Scope != c.blame || v.Error == nil {
			t.Errorf("%v: %s, %s", c.err, v.Kind, v.Scope)
		}
	}
	r := newPoolRig(t, 1, Options{})
	v := TokenFailure(perigee.Errorf(perigee.ClassUnauthenticated, "two were refused: %w", providererr.ErrRefreshPaused))
	r.ask(flash, &v)
	r.sees("who is left alone does not rest", restOf(r.Status()[0]), "")
}
