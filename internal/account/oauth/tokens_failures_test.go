package oauth

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"perigee"
	"perigee/internal/simulator"
)

func TestRotatedTokenThatCannotBeStoredIsNotLost(t *testing.T) {
	inTime(t, rotating, func(t *testing.T, s *source) {
		s.store.broken = perigee.Errorf(perigee.ClassUnavailable, "the disk is full").WithHint("free some space")
		for range 5 {
			_, err := s.Token(t.Context())
			wantClass(t, err, perigee.ClassUnavailable)
			if !errors.Is(err, s.store.broken) {
				t.Errorf("it does not say why: %v", err)
			}
		}
		s.wantAsked(t, 1)
		s.store.broken = nil
		s.must(t)
		s.wantAsked(t, 1)
		if s.store.only().Refresh == ada().Refresh {
			t.Error("the new refresh token was lost")
		}
	})
}

func TestTokenThatWaitedTooLongForTheStoreIsReplaced(t *testing.T) {
	inTime(t, rotating, func(t *testing.T, s *source) {
		s.store.broken = errors.New("the disk is full")
		if _, err := s.Token(t.Context()); err == nil {
			t.Fatal("no error")
		}
		pass(2 * time.Hour)
		s.store.broken = nil
		s.must(t)
		s.wantAsked(t, 2)
	})
}

// TestStoredSignInThatChangedMeanwhile changes the account between reading it and storing its new
// token.
func TestStoredSignInThatChangedMeanwhile(t *testing.T) {
	tests := []struct {
		name  string
		other func(s *source)
		check func(t *testing.T, s *source, err error)
	}{
		{"somebody disabled it", func(s *source) { s.store.edit(func(a *perigee.SignIn) { a.Enabled, a.ProjectID = false, "p" }) },
			func(t *testing.T, s *source, err error) {
				if got := s.store.only(); err != nil || got.Enabled || got.ProjectID != "p" || got.Refresh == ada().Refresh {
					t.Errorf("got %v, %+v", err, got)
				}
				s.wantAsked(t, 1)
			}},
		{"somebody signed in anew", func(s *source) {
			s.store.edit(func(a *perigee.SignIn) { a.Refresh = perigee.NewSecret("sim-refresh-bob") })
		}, func(t *testing.T, s *source, err error) {
			if err != nil {
				t.Fatal(err)
			}
			email, err := s.rig.client.Email(t.Context(), s.must(t))
			if err != nil || email != "bob@example.com" {
				t.Errorf("the token is %s's, %v", email, err)
			}
			s.wantAsked(t, 2)
		}},
		{"somebody removed it", func(s *source) { _, _ = s.store.RemoveSignIn(t.Context(), "antigravity", "ada@example.com") },
			func(t *testing.T, s *source, err error) {
				wantClass(t, err, perigee.ClassUnauthenticated)
				if len(s.store.list) != 0 {
					t.Error("it came back")
				}
			}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inTime(t, rotating, func(t *testing.T, s *source) {
				once := sync.OnceFunc(func() { test.other(s) })
				s.store.before = once
				_, err := s.Token(t.Context())
				test.check(t, s, err)
			})
		})
	}
}

func TestRevokedTokenSignsOut(t *testing.T) {
	for _, shape := range []string{"oauth", "google"} {
		inTime(t, simulator.Script{OAuthErrors: shape}, func(t *testing.T, s *source) {
			s.fault("/token", "invalid_grant", 1)
			_, err := s.Token(t.Context())
			e := wantClass(t, err, perigee.ClassUnauthenticated)
			if e.Hint != "run `perigee login`" {
				t.Errorf("next is %q", e.Hint)
			}
			if got := s.store.only(); got.State != perigee.AccountSignedOut || got.Reason == "" || got.Refresh.IsZero() {
				t.Errorf("stored %+v", got)
			}
			for range 3 {
				_, err := s.Token(t.Context())
				wantClass(t, err, perigee.ClassUnauthenticated)
			}
			s.wantAsked(t, 1) // asking again cannot help

			s.store.edit(func(a *perigee.SignIn) {
				a.Refresh, a.State = perigee.NewSecret("sim-refresh-bob"), perigee.AccountReady
			})
			s.must(t)
			if got := s.store.only(); got.State != perigee.AccountReady {
				t.Errorf("after a new sign-in: %+v", got)
			}
			_, _ = s.store.RemoveSignIn(t.Context(), "antigravity", "ada@example.com")
		})
	}
}

// The pool learns that an account is signed out before the calls that wait for its token do, also
// when none waits.
func TestStateThatChangesIsTold(t *testing.T) {
	inTime(t, simulator.Script{}, func(t *testing.T, s *source) {
		var told []string
		s.Changed = func() { told = append(told, s.SignIn().State) }
		s.must(t)
		if len(told) > 0 {
			t.Errorf("told %q although nothing has changed", told)
		}
		pass(57 * time.Minute) // the token is still good, and is refreshed in the background
		s.fault("/token", "invalid_grant", 1)
		s.must(t)
		synctest.Wait()
		if len(told) != 1 || told[0] != perigee.AccountSignedOut {
			t.Errorf("told %q", told)
		}
	})
}

func TestRevokedTokenOfARemovedAccount(t *testing.T) {
	inTime(t, simulator.Script{}, func(t *testing.T, s *source) {
		s.fault("/token", "invalid_grant", 0)
		_, _ = s.store.RemoveSignIn(t.Context(), "antigravity", "ada@example.com")
		for range 2 {
			_, err := s.Token(t.Context())
			wantClass(t, err, perigee.ClassUnauthenticated)
		}
		if len(s.store.list) != 0 {
			t.Error("it came back")
		}
	})
}

// TestTokenThatAnotherProcessRotated is what happens to two daemons on one store.
func TestTokenThatAnotherProcessRotated(t *testing.T) {
	inTime(t, rotating, func(t *testing.T, s *source) {
		other := NewTokens(s.rig.client, s.store, s.store.only())
		defer other.Close()
		for range 4 {
			if _, err := other.Token(t.Context()); err != nil {
				t.Fatal(err)
			}
			pass(time.Hour)
		}
		s.must(t) // what it knows has long been replaced
		if got := s.store.only(); got.State != perigee.AccountReady {
			t.Errorf("it was taken for signed out: %+v", got)
		}
	})
}

// TestTroubleThatIsNotTheAccounts must not change any account.
func TestTroubleThatIsNotTheAccounts(t *testing.T) {
	for _, fault := range []string{"reset", "hang", "internal_500", "unavailable_503", "deadline_504", "bad_gateway_html", "array_error",
		"quota_exhausted", "rate_limit", "capacity", "not_found"} {
		t.Run(fault, func(t *testing.T) {
			inTime(t, rotating, func(t *testing.T, s *source) {
				s.fault("/token", fault, 1)
				_, err := s.Token(t.Context())
				e := wantClass(t, err, perigee.ClassUnavailable)
				if StateOf(err) != "" || s.store.writes != 0 {
					t.Errorf("the account fails with %v", err)
				}
				// No model was asked: neither its quota nor when that is back is told, and no
				// status that speaks of it.
				if strings.Contains(e.Message, "for this model") || e.Retry <= 0 || e.Retry > time.Minute || e.Status != 0 || e.Details != nil {
					t.Errorf("told %+v", e)
				}
				s.must(t)
			})
		})
	}
	t.Run("no secret of the client", func(t *testing.T) {
		inTime(t, rotating, func(t *testing.T, s *source) {
			s.rig.client.opts.ClientSecret = perigee.Secret{}
			_, err := s.Token(t.Context())
			e := wantClass(t, err, perigee.ClassIdentity)
			if StateOf(err) != "" || s.store.writes != 0 || e.Hint == "" {
				t.Errorf("the account fails with %v", err)
			}
		})
	})
}
