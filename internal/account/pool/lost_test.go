package pool

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"perigee"
	"perigee/internal/adapt/providererr"
)

// refuse has the sign-in server refuse accounts.
func (r *poolRig) refuse(kind providererr.Kind, accounts ...int) {
	for _, i := range accounts {
		r.sources[i].fail(&tokenRefusal{*judged(kind, 0)})
	}
}

func TestTheSignInServerCostsACallTwoAccountsAtMost(t *testing.T) {
	for kind, state := range map[providererr.Kind]string{providererr.KindSignedOut: "signed_out", providererr.KindBan: "banned", providererr.KindIneligible: "banned", providererr.KindVerification: "verification"} {
		for _, selection := range []string{Sticky, RoundRobin, Hybrid} {
			r := newPoolRig(t, 5, Options{Selection: selection})
			r.refuse(kind, 0, 1, 2, 3, 4)
			e := r.refused(flash)
			if len(r.states) != 2 {
				t.Errorf("%s, %s: one call stopped %q", kind, selection, r.states)
			}
			for _, told := range r.states {
				if !strings.HasSuffix(told, " "+state) {
					t.Errorf("told %q", told)
				}
			}
			if !strings.HasPrefix(e.Message, "2 accounts cannot be signed in for the same cause: ") || !strings.Contains(e.Hint, "oauth.client_id") ||
				!strings.Contains(e.Hint, "not tried") {
				t.Errorf("the call is told %q, %q", e.Message, e.Hint)
			}
		}
	}
}

// What the gateway and the sign-in server say to one call counts together, and with anything in
// between.
func TestCausesAreCountedWhereverTheyAreMet(t *testing.T) {
	r := newPoolRig(t, 5, onlyAntigravity(Options{}))
	b := r.caller(flash)
	r.sees("signed out", b.ask(judged(providererr.KindSignedOut, 0)), "a")
	r.sees("banned", b.ask(judged(providererr.KindBan, 0)), "b")
	r.refuse(providererr.KindSignedOut, 2)
	if e := b.refused(); !strings.Contains(e.Message, "2 accounts") {
		t.Errorf("a third account may be lost: %v", e)
	}
	r.sees("stopped", strings.Join(r.states, ", "), "a signed_out, b banned, c signed_out")
	r.sees("the next call", r.ask(flash, nil), "d")

	r = newPoolRig(t, 5, onlyAntigravity(Options{}))
	r.refuse(providererr.KindBan, 0)
	second := judged(providererr.KindBan, 0)
	r.sees("the other way round", r.ask(flash, second), "b")
	if second.Scope != providererr.ScopeNone {
		t.Errorf("blame %s: the call may lose a third account", second.Scope)
	}
}

// Different causes are different accounts' troubles.
func TestDifferentCausesDoNotAddUp(t *testing.T) {
	r := newPoolRig(t, 4, Options{})
	r.refuse(providererr.KindBan, 0)
	r.refuse(providererr.KindSignedOut, 1)
	r.refuse(providererr.KindMisnamed, 2)
	r.sees("account", r.ask(flash, nil), "d")
	r.sees("told", strings.Join(r.states, ", "), "a banned, b signed_out, c misnamed")
	r.enable(3, false)
	r.sees("refused", r.refused(flash).Message, "no account is usable for gemini-3-flash; of 4: 1 banned, 1 signed out, 1 with the token of another account, 1 disabled")
}

func TestNoAccountIsStoppedForTheOAuthClient(t *testing.T) {
	for _, body := range []string{
		`{"error":"invalid_client","error_description":"The OAuth client was not found."}`,
		`{"error":"invalid_client"}`,
		`{"error":"unauthorized_client","error_description":"Unauthorized"}`,
		`{"error":"unauthorized_client"}`,
		`{"error":"deleted_client","error_description":"The OAuth client was deleted."}`,
		`{"error":{"code":401,"status":"UNAUTHENTICATED","message":"invalid_client: The OAuth client was not found."}}`,
		`{"error":{"code":400,"status":"INVALID_ARGUMENT","message":"unauthorized_client: Token has been revoked for this client."}}`,
	} {
		for _, status := range []int{400, 401, 403} {
			v := providererr.Classify(status, nil, []byte(body), time.Now())
			if v.Kind != providererr.KindOAuthClient || v.Scope != providererr.ScopeNone {
				t.Errorf("%d %s: %s, %s", status, body, v.Kind, v.Scope)
			}
			r := newPoolRig(t, 3, Options{})
			for _, s := range r.sources {
				s.fail(&tokenRefusal{v})
			}
			r.refused(flash)
			if len(r.states) > 0 || restOf(r.Status()[0]) != "" {
				t.Errorf("%d %s: stopped %q", status, body, r.states)
			}
		}
	}
	r := newPoolRig(t, 3, Options{})
	for _, s := range r.sources {
		s.fail(perigee.Errorf(perigee.ClassInvalid, "there is no OAuth client"))
	}
	if e := r.refused(flash); e.Class != perigee.ClassInvalid || restOf(r.Status()[0]) != "" {
		t.Errorf("without an OAuth client: %v, %s", e, restOf(r.Status()[0]))
	}
}

// An account that is left alone neither stops nor cools down, and does not keep the call from one
// that has a token.
func TestAccountsThatAreLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 6, Options{MaxWait: time.Minute})
		for _, s := range r.sources[:5] {
			s.fail(perigee.Errorf(perigee.ClassUnauthenticated, "two were refused: %w", providererr.ErrRefreshPaused))
		}
		start := time.Now()
		r.sees("account", r.ask(flash, nil), "f")
		r.enable(5, false)
		if e := r.refused(flash); !strings.Contains(e.Message, "two were refused") || time.Since(start) != 0 {
			t.Errorf("after %s: %v", time.Since(start), e)
		}
		for _, s := range r.sources {
			s.fail(nil)
		}
		r.sees("at once", r.ask(flash, nil), "e")
		if len(r.states) > 0 {
			t.Errorf("stopped %q", r.states)
		}
	})
}

// A report on a sign-in that was replaced while the call was under way says nothing about the new
// one.
func TestOldReportsStopNoAccount(t *testing.T) {
	for _, kind := range []providererr.Kind{providererr.KindBan, providererr.KindVerification, providererr.KindSignedOut} {
		r := newPoolRig(t, 1, Options{})
		old := r.take(flash)
		r.sources[0] = newSource("a")
		r.announce()
		old.Done(judged(kind, 0))
		r.sees(string(kind), r.Status()[0].State+strings.Join(r.states, ","), perigee.AccountReady)
	}
}

func TestStopsNameTheGenerationThatTheyAreAbout(t *testing.T) {
	var stops []Stop
	pool := New(Options{OnState: func(s Stop) { stops = append(stops, s) }})
	one, two := newSource("a"), newSource("b")
	two.signIn.Generation = 12
	two.fail(&tokenRefusal{*judged(providererr.KindSignedOut, 0)})
	pool.SetSources([]Source{one, two})
	l, err := pool.Acquire(flash).Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	one.change(func(s *perigee.SignIn) { s.Generation = 9 }) // its token was rotated meanwhile
	l.Done(judged(providererr.KindBan, 0))
	if _, err := pool.Acquire(flash).Next(t.Context()); err == nil {
		t.Fatal("lent")
	}
	var got []string
	for _, s := range stops {
		got = append(got, fmt.Sprint(s.Email, " ", s.State, " ", s.Generation))
	}
	if want := []string{"a banned 9", "b signed_out 12"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestUntestedAccountsAreLentLikeReadyOnes(t *testing.T) {
	r := newPoolRig(t, 2, Options{})
	r.sources[0].change(func(s *perigee.SignIn) { s.State = perigee.AccountUntested })
	r.announce()
	r.sees("lent", r.ask(flash, nil), "a")
	r.sees("listed", r.Status()[0].State, perigee.AccountUntested)
	// The sign-in finds out by itself that it works.
	r.sources[0].change(func(s *perigee.SignIn) { s.State, s.Generation = perigee.AccountReady, 8 })
	r.Learn(r.sources[0])
	r.sees("listed", r.Status()[0].State, perigee.AccountReady)
	r.ask(flash, judged(providererr.KindBan, 0))
	r.sees("stopped", r.Status()[0].State, perigee.AccountBanned)
	r.sources[0].change(func(s *perigee.SignIn) { s.State, s.Generation = perigee.AccountUntested, 9 })
	r.announce()
	r.sees("brought again", r.ask(flash, nil)+" "+r.Status()[0].State, "a "+perigee.AccountUntested)
}

// A call waits for a provider that asks for a moment again and again as long as it may wait,
// however many leases that takes.
func TestBriefDelaysAreBoundedByMaxWaitAlone(t *testing.T) {
	for _, accounts := range []int{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			r := newPoolRig(t, accounts, onlyAntigravity(Options{MaxWait: time.Minute}))
			start, leases, b := time.Now(), 0, r.Acquire(in("s", flash))
			for {
				l, err := b.Next(t.Context())
				if err != nil {
					if e := perigee.AsError(err); e.Class != perigee.ClassRateLimited || e.Retry <= 0 {
						t.Errorf("%s after %s: %v", e.Class, e.Retry, e)
					}
					break
				}
				l.Done(judged(providererr.KindRate, time.Second))
				leases++
			}
			if waited := time.Since(start); waited > time.Minute || waited < time.Minute-2*time.Second || leases < 40 || leases > 40*accounts+accounts {
				t.Errorf("%d accounts: %d leases in %s", accounts, leases, waited)
			}
		})
	}
}
