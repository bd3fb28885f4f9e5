package oauth

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"perigee"
	"perigee/internal/adapt/providererr"
	"perigee/internal/simulator"
	"perigee/internal/testing/perigeetest/await"
)

// untested runs a test with an account that was brought from elsewhere.
func untested(t *testing.T, script simulator.Script, change func(*perigee.SignIn), test func(t *testing.T, s *source)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, script)
		signIn := ada()
		signIn.State = perigee.AccountUntested
		if change != nil {
			change(&signIn)
		}
		store := newMemory(signIn)
		tokens := NewTokens(r.client, store, store.only())
		tokens.jitter = func() time.Duration { return 0 }
		t.Cleanup(tokens.Close)
		test(t, &source{rig: r, Tokens: tokens, store: store})
	})
}

func (s *source) wantState(t *testing.T, state string) {
	t.Helper()
	if got := s.store.only(); got.State != state || s.SignIn().State != state {
		t.Errorf("the account is %s (%s), and %s here, want %s", got.State, got.Reason, s.SignIn().State, state)
	}
}

func (s *source) token(t *testing.T) {
	t.Helper()
	if _, err := s.Token(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestUntestedAccountIsReadyAfterItsFirstRefresh(t *testing.T) {
	for _, script := range []simulator.Script{{}, rotating} {
		untested(t, script, nil, func(t *testing.T, s *source) {
			s.wantState(t, perigee.AccountUntested)
			s.token(t)
			s.wantState(t, perigee.AccountReady)
			pass(2 * time.Hour)
			s.token(t)
			if n := s.asked("/userinfo"); n != 1 {
				t.Errorf("it was asked %d times whose it is", n)
			}
			s.wantAsked(t, 2)
		})
	}
}

func TestTokenOfAnotherAccountIsNotUsed(t *testing.T) {
	for _, script := range []simulator.Script{{}, rotating} {
		untested(t, script, func(s *perigee.SignIn) { s.Email = "bob@example.com" }, func(t *testing.T, s *source) {
			for range 3 {
				_, err := s.Token(t.Context())
				wantClass(t, err, perigee.ClassUnauthenticated)
				if refusal, ok := errors.AsType[*Refusal](err); !ok || refusal.Kind != providererr.KindMisnamed {
					t.Errorf("got %v", err)
				}
			}
			s.wantState(t, perigee.AccountMisnamed)
			s.wantAsked(t, 1) // asking again cannot help
			const reason = "this refresh token belongs to ada@example.com, not to bob@example.com; remove it or import it under its own name"
			if got := s.store.only(); got.Reason != reason || script.RotateRefreshTokens == (got.Refresh == ada().Refresh) {
				t.Errorf("stored %+v", got)
			}
			// Enabling it means that it is asked again.
			s.store.edit(func(a *perigee.SignIn) { a.State, a.Reason = perigee.AccountUntested, "" })
			if _, err := s.Token(t.Context()); err == nil {
				t.Error("it was given out")
			}
			s.wantState(t, perigee.AccountMisnamed)
			s.wantAsked(t, 2)
		})
	}
}

func TestUppercaseIsNotAnotherAccount(t *testing.T) {
	untested(t, simulator.Script{}, func(s *perigee.SignIn) { s.Email = "Ada@Example.com" }, func(t *testing.T, s *source) {
		s.token(t)
		s.wantState(t, perigee.AccountReady)
	})
}

// The owner is unknown, so the account can be used and is asked about again from time to time.
func TestUserinfoThatIsInTroubleMarksNobody(t *testing.T) {
	for _, fault := range []string{"reset", "hang", "internal_500", "unavailable_503", "bad_gateway_html", "bare_429", "not_found"} {
		t.Run(fault, func(t *testing.T) {
			untested(t, rotating, nil, func(t *testing.T, s *source) {
				s.fault("/userinfo", fault, 1)
				s.token(t)
				s.wantState(t, perigee.AccountUntested)
				for range 3 {
					s.token(t)
				}
				synctest.Wait()
				if n := s.asked("/userinfo"); n != 1 {
					t.Errorf("it was asked %d times whose it is", n)
				}
				pass(ownerRetry)
				s.token(t)
				synctest.Wait()
				s.wantState(t, perigee.AccountReady)
				s.wantAsked(t, 2)
			})
		})
	}
}

// A sign-in for less than we would ask for works all the same.
func TestUserinfoThatMayNotBeAskedMarksNobody(t *testing.T) {
	for _, fault := range []string{"forbidden", "unauthorized"} {
		untested(t, simulator.Script{}, nil, func(t *testing.T, s *source) {
			s.fault("/userinfo", fault, 0)
			s.token(t)
			s.wantState(t, perigee.AccountReady)
		})
	}
}

// A process that is killed while it asks for the owner of an account must not have lost the rotated
// token.
func TestRotatedTokenIsStoredBeforeItIsAskedWhoseItIs(t *testing.T) {
	untested(t, rotating, nil, func(t *testing.T, s *source) {
		s.fault("/userinfo", "hang", 1)
		go func() { _, _ = s.Token(t.Context()) }()
		synctest.Wait()
		if got := s.store.only(); s.asked("/userinfo") != 1 || got.Refresh == ada().Refresh {
			t.Errorf("asked %d times, stored %v", s.asked("/userinfo"), got)
		}
	})
}

// A state that was set meanwhile is kept although the account works.
func TestStateThatWasDecidedMeanwhileStays(t *testing.T) {
	untested(t, simulator.Script{}, nil, func(t *testing.T, s *source) {
		s.store.before = sync.OnceFunc(func() {
			s.store.edit(func(a *perigee.SignIn) { a.State, a.Reason = perigee.AccountBanned, "the provider said so" })
		})
		s.token(t)
		s.wantState(t, perigee.AccountBanned)
	})
	untested(t, simulator.Script{}, nil, func(t *testing.T, s *source) {
		s.store.before = sync.OnceFunc(func() {
			s.store.edit(func(a *perigee.SignIn) { a.Enabled, a.ProjectID = false, "p" })
		})
		s.token(t)
		s.wantState(t, perigee.AccountReady)
		if got := s.store.only(); got.Enabled || got.ProjectID != "p" {
			t.Errorf("stored %+v", got)
		}
	})
	untested(t, simulator.Script{}, nil, func(t *testing.T, s *source) {
		s.store.before = sync.OnceFunc(func() {
			s.store.edit(func(a *perigee.SignIn) { a.Refresh = perigee.NewSecret("sim-refresh-bob") })
		})
		if _, err := s.Token(t.Context()); err == nil || !strings.Contains(err.Error(), "belongs to bob@example.com") {
			t.Errorf("the new sign-in was not looked at: %v", err)
		}
	})
}

func TestStateThatCannotBeStoredKeepsNobodyWaiting(t *testing.T) {
	untested(t, simulator.Script{}, nil, func(t *testing.T, s *source) {
		s.store.broken = errors.New("the disk is full")
		s.token(t)
		s.wantState(t, perigee.AccountUntested)
		s.store.broken = nil
		pass(2 * time.Hour)
		s.token(t)
		s.wantState(t, perigee.AccountReady)
	})
}

// One replica finds out for all.
func TestReplicasAskOnceWhoseItIs(t *testing.T) {
	r := newRig(t, rotating)
	signIn := ada()
	signIn.State = perigee.AccountUntested
	store := newLeasing(signIn)
	one, two := NewTokens(r.client, store, store.only()), NewTokens(r.client, store, store.only())
	defer one.Close()
	defer two.Close()
	var both sync.WaitGroup
	for _, tokens := range []*Tokens{one, two} {
		both.Go(func() {
			if _, err := tokens.Token(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	await.Return(t, both.Wait, "both replicas")
	if n := r.asked("/userinfo"); n != 1 {
		t.Errorf("it was asked %d times whose it is", n)
	}
	for _, tokens := range []*Tokens{one, two} {
		if got := tokens.SignIn().State; got != perigee.AccountReady {
			t.Errorf("it is %s", got)
		}
	}
	if got := store.only().State; got != perigee.AccountReady {
		t.Errorf("stored as %s", got)
	}
}

// It runs in a bubble.
func TestRetiredTokensSpendNothing(t *testing.T) {
	inTime(t, rotating, func(t *testing.T, s *source) {
		s.pace = time.Second
		done := make(chan error, 1)
		go func() { _, err := s.Token(t.Context()); done <- err }()
		synctest.Wait()
		if s.Retire() {
			t.Error("it was retired while it refreshed")
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !s.Retire() {
			t.Error("it was not retired")
		}
		s.token(t) // what is held stays good
		pass(2 * time.Hour)
		_, err := s.Token(t.Context())
		wantClass(t, err, perigee.ClassUnavailable)
		s.wantAsked(t, 1)
		successor := NewTokens(s.rig.client, s.store, s.store.only())
		defer successor.Close()
		if !s.Transfer(s.store.only(), successor, true) {
			t.Fatal("not handed over")
		}
		s.token(t)
		s.wantAsked(t, 2)
	})
}
