package pool

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"perigee"
	"perigee/internal/adapt/providererr"
)

// sessionStoreRig is a SessionStore that several pools share.
type sessionStoreRig struct {
	mu     sync.Mutex
	kept   map[string][2]string
	broken bool // it does not answer
}

func (s *sessionStoreRig) SaveSession(_ context.Context, session, family, email, pool string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept[session+" "+family] = [2]string{email, pool}
	return nil
}

// FindSession is called in bubbles: a broken store answers when the caller gives up.
func (s *sessionStoreRig) FindSession(ctx context.Context, session, family string) (string, string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken {
		<-ctx.Done()
		return "", "", ctx.Err()
	}
	found := s.kept[session+" "+family]
	return found[0], found[1], nil
}

func (s *sessionStoreRig) ForgetSessions(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.kept)
	return nil
}

func TestSessionKeepsItsAccountInAnotherPool(t *testing.T) {
	shelf := &sessionStoreRig{kept: map[string][2]string{}}
	one := newPoolRig(t, 3, onlyAntigravity(Options{Selection: RoundRobin, Sessions: shelf}))
	two := newPoolRig(t, 3, onlyAntigravity(Options{Selection: RoundRobin, Sessions: shelf}))
	one.sees("turns", one.asks(flash, 1), "a")
	one.sees("a new session", one.asks(in("s", flash), 2), "bb")
	one.Close()
	two.sees("the same session elsewhere", two.asks(in("s", flash), 2), "bb")
	two.sees("another session", two.asks(in("t", flash), 2), "aa")
	two.Close()
	one.sees("that one, here", one.asks(in("t", flash), 1), "a")
	if err := two.Use("c"); err != nil {
		t.Fatal(err)
	}
	two.sees("after the owner's choice", two.asks(in("s", flash), 1), "c")
}

// Where all sessions were restored, no call looks for one.
func TestRestoredSessionsAreNotLookedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shelf := &sessionStoreRig{kept: map[string][2]string{}, broken: true}
		r := newPoolRig(t, 3, onlyAntigravity(Options{Selection: RoundRobin, Sessions: shelf}))
		r.RestoreSession("s", "gemini", "c", PoolAntigravity)
		r.RestoreSession("s", "claude", "b", PoolAntigravity)
		r.RestoreSession("t", "gemini", "gone", PoolAntigravity)
		r.RestoreSession("u", "gemini", "c", "a pool that is not used")
		r.SessionsRestored()
		began := time.Now()
		r.sees("restored", r.asks(in("s", flash), 2)+r.asks(in("s", opus), 2), "ccbb")
		r.sees("new", r.asks(in("t", flash), 1)+r.asks(in("u", flash), 1), "ab")
		if waited := time.Since(began); waited != 0 {
			t.Errorf("the store was asked for %v", waited)
		}
		r.Close()
	})
}

func TestSessionDoesNotWaitForAStoreThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shelf := &sessionStoreRig{kept: map[string][2]string{}, broken: true}
		r := newPoolRig(t, 2, onlyAntigravity(Options{Sessions: shelf}))
		began := time.Now()
		r.sees("a session", r.asks(in("s", flash), 1), "a")
		if waited := time.Since(began); waited != recallTime {
			t.Errorf("it waited %v", waited)
		}
		r.sees("the next call", r.asks(in("s", flash), 1), "a")
		if waited := time.Since(began); waited != recallTime {
			t.Errorf("the next one waited, too: %v", waited)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := r.Acquire(in("u", flash)).Next(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		r.Close()
	})
}

func TestAccountRestsFromWhatOthersMet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &cooldownStoreRig{}
		r := newPoolRig(t, 2, onlyAntigravity(Options{Store: store}))
		rests := func(until time.Time) {
			r.sources[0].change(func(s *perigee.SignIn) {
				s.Cooldowns = []perigee.Cooldown{{Family: "gemini", Pool: PoolAntigravity, Until: until, Reason: string(providererr.KindQuota)}}
			})
			r.announce()
		}
		r.sees("before", r.asks(flash, 1), "a")
		hour := time.Now().Add(time.Hour)
		rests(hour)
		r.sees("while it rests", r.asks(flash, 1)+r.asks(opus, 1), "ba")
		passes(time.Hour)
		if err := r.Use("a"); err != nil {
			t.Fatal(err)
		}
		r.sees("afterwards", r.asks(flash, 1), "a")

		// What this pool stored itself comes back with the next reading, and late: it is no news
		// then.
		r.sees("limited", r.ask(flash, judged(providererr.KindQuota, 2*time.Hour)), "a")
		r.Close()
		own := store.last()
		if err := r.Use("a"); err != nil {
			t.Fatal(err)
		}
		rests(own.Until.Truncate(time.Microsecond))
		r.sees("what the owner has ended stays ended", r.asks(flash, 1), "a")
		rests(own.Until.Add(time.Hour))
		r.sees("what others say later counts", r.asks(flash, 1), "b")
		r.Close()
	})
}

// cooldownStoreRig remembers what was stored last and was not over.
type cooldownStoreRig struct {
	mu   sync.Mutex
	kept perigee.Cooldown
}

func (s *cooldownStoreRig) SaveCooldown(_ context.Context, _, _ string, c perigee.Cooldown) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.Until.After(time.Now()) {
		s.kept = c
	}
	return nil
}

func (s *cooldownStoreRig) last() perigee.Cooldown {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept
}
