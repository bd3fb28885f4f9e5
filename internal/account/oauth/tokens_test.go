package oauth

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"perigee"
	"perigee/internal/lib/steadyclock"
	"perigee/internal/simulator"
)

// A source is Tokens for ada with everything around it.
type source struct {
	*rig
	*Tokens
	store *memory
}

// inTime runs a test in a bubble of time.
func inTime(t *testing.T, script simulator.Script, test func(t *testing.T, s *source)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, script)
		store := newMemory(ada())
		tokens := NewTokens(r.client, store, store.only())
		tokens.jitter = func() time.Duration { return 0 }
		t.Cleanup(tokens.Close)
		test(t, &source{rig: r, Tokens: tokens, store: store})
	})
}

func (s *source) must(t *testing.T) perigee.Secret {
	t.Helper()
	token, err := s.Token(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !s.works(token) {
		t.Fatal("the provider does not take the token")
	}
	return token
}

func (s *source) wantAsked(t *testing.T, n int) {
	t.Helper()
	if got := s.asked("/token"); got != n {
		t.Errorf("the provider was asked for tokens %d times, want %d", got, n)
	}
}

var rotating = simulator.Script{RotateRefreshTokens: true}

func TestTokenIsUsedUntilItIsAboutToEnd(t *testing.T) {
	inTime(t, simulator.Script{}, func(t *testing.T, s *source) {
		first := s.must(t)
		pass(54 * time.Minute)
		if s.must(t) != first {
			t.Error("it was replaced too early")
		}
		s.wantAsked(t, 1)
		pass(time.Minute) // five minutes before the end: this call does not wait for the new token
		if s.must(t) != first {
			t.Error("a call waited although the token was good")
		}
		synctest.Wait()
		s.wantAsked(t, 2)
		if s.must(t) == first {
			t.Error("the new token is not used")
		}
		s.wantAsked(t, 2)
		if s.store.writes != 0 {
			t.Error("the store was written although nothing changed")
		}
	})
}

func TestJitterRefreshesEarlier(t *testing.T) {
	inTime(t, simulator.Script{}, func(t *testing.T, s *source) {
		s.jitter = func() time.Duration { return time.Minute }
		s.must(t)
		pass(54 * time.Minute)
		s.must(t)
		synctest.Wait()
		s.wantAsked(t, 2)
	})
}

func TestEndedTokenIsNotGivenOut(t *testing.T) {
	inTime(t, simulator.Script{}, func(t *testing.T, s *source) {
		first := s.must(t)
		pass(59*time.Minute + 40*time.Second)
		if s.must(t) == first {
			t.Error("it had less than half a minute left")
		}
		pass(8 * time.Hour)
		s.must(t)
		s.wantAsked(t, 3)
	})
}

func TestNobodyAsksNothingIsRefreshed(t *testing.T) {
	inTime(t, simulator.Script{}, func(t *testing.T, s *source) {
		s.must(t)
		pass(24 * time.Hour)
		s.wantAsked(t, 1)
	})
}

func TestRefreshAheadThatFailsDisturbsNobody(t *testing.T) {
	inTime(t, simulator.Script{}, func(t *testing.T, s *source) {
		first := s.must(t)
		pass(55 * time.Minute)
		s.fault("/token", "unavailable_503", 0)
		for range 100 {
			if s.must(t) != first {
				t.Fatal("another token")
			}
			synctest.Wait()
		}
		s.wantAsked(t, 2) // and not a hundred times
		pass(pauseAhead)
		s.must(t)
		synctest.Wait()
		s.wantAsked(t, 3)
		pass(5 * time.Minute)
		_, err := s.Token(t.Context())
		wantClass(t, err, perigee.ClassUnavailable)
		if got := s.store.only(); got.State != perigee.AccountReady || s.store.writes != 0 {
			t.Errorf("trouble of the server changed the account: %+v", got)
		}
	})
}

// The bubble fails if one of them waits for ever.
func TestOneRefreshForAllWhoWait(t *testing.T) {
	inTime(t, rotating, func(t *testing.T, s *source) {
		s.pace = 10 * time.Second
		impatient, leave := context.WithCancel(t.Context())
		var waiting sync.WaitGroup
		waiting.Go(func() { // the first one starts the refresh and is also the first to go
			if _, err := s.Token(impatient); !errors.Is(err, context.Canceled) {
				t.Errorf("who left got %v", err)
			}
		})
		synctest.Wait()
		tokens := make([]perigee.Secret, 50)
		for i := range tokens {
			waiting.Go(func() {
				var err error
				if tokens[i], err = s.Token(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		leave()
		waiting.Wait()
		for _, token := range tokens {
			if token.IsZero() || token != tokens[0] {
				t.Fatal("they did not get the same token")
			}
		}
		s.wantAsked(t, 1)
	})
}

// The bubble fails if one of them waits for ever.
func TestAllWhoWaitLearnWhatWentWrong(t *testing.T) {
	inTime(t, simulator.Script{}, func(t *testing.T, s *source) {
		s.fault("/token", "internal_500", 1)
		var waiting sync.WaitGroup
		for range 20 {
			waiting.Go(func() {
				_, err := s.Token(t.Context())
				if err == nil {
					return // came after the one that failed
				}
				wantClass(t, err, perigee.ClassUnavailable)
			})
		}
		waiting.Wait()
		s.must(t)
	})
}

// It runs in a bubble.
func TestRotatedTokenIsStoredBeforeUse(t *testing.T) {
	inTime(t, rotating, func(t *testing.T, s *source) {
		s.store.hold = make(chan struct{})
		got := make(chan error, 1)
		go func() {
			_, err := s.Token(t.Context())
			got <- err
		}()
		synctest.Wait()
		select {
		case err := <-got:
			t.Fatalf("a token was given out before the new refresh token was stored: %v", err)
		default:
		}
		close(s.store.hold)
		if err := <-got; err != nil {
			t.Fatal(err)
		}
		stored := s.store.only()
		if stored.Refresh == ada().Refresh || stored.Refresh != s.SignIn().Refresh || stored.Generation != s.SignIn().Generation {
			t.Errorf("stored %d, known %d", stored.Generation, s.SignIn().Generation)
		}
		for range 5 { // each with the one before; the provider takes an old one twice only
			pass(time.Hour)
			s.must(t)
		}
		if s.store.writes != 6 {
			t.Errorf("%d writes for 6 rotations", s.store.writes)
		}
	})
}

func TestRefusedTokenIsReplacedOnce(t *testing.T) {
	inTime(t, simulator.Script{}, func(t *testing.T, s *source) {
		first := s.must(t)
		for range 20 { // all of them were sent with the same token
			s.Refused(first)
			if s.must(t) == first {
				t.Fatal("the refused token was given out again")
			}
		}
		s.Refused(perigee.Secret{})
		s.must(t)
		s.wantAsked(t, 2)
	})
}

// TestClockJumps moves the two clocks apart. Both are the test's own here.
func TestClockJumps(t *testing.T) {
	tests := []struct {
		name       string
		wall, mono time.Duration // how far each is moved
		refreshed  bool
	}{
		{"nothing happens", 0, 0, false},
		{"the clock is set back", -24 * time.Hour, time.Minute, false},
		{"the clock is set back, and the token ends", -24 * time.Hour, time.Hour, true},
		{"the clock is set forward", 24 * time.Hour, time.Minute, true},
		{"the machine slept", 2 * time.Hour, time.Second, true},
		{"the clock is a little off", 3 * time.Second, time.Second, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, simulator.Script{})
			wall, mono := time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC), time.Duration(0)
			r.options.Now = func() time.Time { return wall }
			store := newMemory(ada())
			tokens := NewTokens(NewClient(r.options), store, store.only())
			defer tokens.Close()
			tokens.clock = steadyclock.NewWith(r.options.Now, func() time.Duration { return mono })
			get := func() perigee.Secret {
				t.Helper()
				token, err := tokens.Token(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				return token
			}
			first := get()
			wall, mono = wall.Add(test.wall), mono+test.mono
			if second := get(); (second != first) != test.refreshed {
				t.Errorf("refreshed: %v, want %v", second != first, test.refreshed)
			}
			want := 1
			if test.refreshed {
				want = 2
			}
			for range 10 {
				get()
			}
			if got := r.asked("/token"); got != want {
				t.Errorf("asked %d times, want %d", got, want)
			}
		})
	}
}

// It runs in a bubble.
func TestCloseEndsARefresh(t *testing.T) {
	inTime(t, simulator.Script{}, func(t *testing.T, s *source) {
		s.fault("/token", "hang", 0)
		got := make(chan error, 1)
		go func() {
			_, err := s.Token(context.Background())
			got <- err
		}()
		synctest.Wait()
		s.Close()
		if err := <-got; err == nil {
			t.Error("no error")
		}
		_, err := s.Token(t.Context())
		wantClass(t, err, perigee.ClassUnavailable)
	})
}

// It runs in a bubble.
func TestCloseStillStoresARotatedToken(t *testing.T) {
	inTime(t, rotating, func(t *testing.T, s *source) {
		s.store.hold = make(chan struct{})
		go func() { _, _ = s.Token(context.Background()) }()
		synctest.Wait()
		closed := make(chan struct{})
		go func() { s.Close(); close(closed) }()
		synctest.Wait()
		close(s.store.hold)
		<-closed
		if s.store.only().Refresh == ada().Refresh {
			t.Error("the new refresh token was lost")
		}
	})
}

// TestManyUseAndRefuse looks for races and for tokens that do not work. It runs in a bubble.
func TestManyUseAndRefuse(t *testing.T) {
	inTime(t, rotating, func(t *testing.T, s *source) {
		var busy sync.WaitGroup
		for i := range 16 {
			busy.Go(func() {
				for n := range 20 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i+1)*time.Hour)
					token, err := s.Token(ctx)
					cancel()
					if err != nil {
						t.Error(fmt.Errorf("caller %d, call %d: %w", i, n, err))
						return
					}
					if (i+n)%7 == 0 {
						s.Refused(token)
					}
					pass(time.Duration(i*n) * time.Second)
				}
			})
		}
		busy.Wait()
		if got := s.store.only(); got.State != perigee.AccountReady || got.Refresh != s.SignIn().Refresh {
			t.Errorf("stored %+v", got)
		}
	})
}
