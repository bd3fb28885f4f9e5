package oauth

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"perigee"
	"perigee/internal/adapt/providererr"
	"perigee/internal/lib/steadyclock"
	"perigee/internal/simulator"
)

// A crowd is several accounts that share an OAuth client, and so a guard.
type crowd struct {
	*rig
	t      *testing.T
	store  *memory
	guard  *Guard
	tokens []*Tokens
}

func inCrowd(t *testing.T, size int, test func(t *testing.T, c *crowd)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var accounts []simulator.Account
		var signIns []perigee.SignIn
		for i := range size {
			s := ada()
			s.Email, s.Refresh = fmt.Sprintf("p%d@example.com", i), perigee.NewSecret(fmt.Sprintf("sim-refresh-p%d", i))
			signIns = append(signIns, s)
			accounts = append(accounts, simulator.Account{Email: s.Email, RefreshToken: s.Refresh.Reveal(), Project: "p"})
		}
		c := &crowd{rig: newRig(t, simulator.Script{Accounts: accounts}), t: t, store: newMemory(signIns...), guard: NewGuard(time.Now)}
		for _, s := range c.store.list {
			tokens := NewTokens(c.client, c.store, s)
			tokens.Guard = c.guard
			tokens.jitter = func() time.Duration { return 0 }
			t.Cleanup(tokens.Close)
			c.tokens = append(c.tokens, tokens)
		}
		test(t, c)
	})
}

// ask says what becomes of asking for a token.
func (c *crowd) ask(i int) string {
	_, err := c.tokens[i].Token(c.t.Context())
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, providererr.ErrRefreshPaused):
		return "left alone"
	}
	if state := StateOf(err); state != "" {
		return state
	}
	return err.Error()
}

func (c *crowd) wants(i int, want string) {
	c.t.Helper()
	if got := c.ask(i); got != want {
		c.t.Errorf("%d: got %q, want %q", i, got, want)
	}
}

// stopped lists the accounts that are stored as stopped.
func (c *crowd) stopped() (list []int) {
	for i, s := range c.store.list {
		if s.State != perigee.AccountReady {
			list = append(list, i)
		}
	}
	return list
}

func (c *crowd) wantStopped(want ...int) {
	c.t.Helper()
	if got := c.stopped(); !slices.Equal(got, want) {
		c.t.Errorf("stopped are %v, want %v", got, want)
	}
}

func TestGuardLeavesTheThirdAlone(t *testing.T) {
	inCrowd(t, 6, func(t *testing.T, c *crowd) {
		c.fault("/token", "invalid_grant", 4)
		c.wants(0, perigee.AccountSignedOut)
		c.wants(1, perigee.AccountSignedOut)
		c.wants(2, "left alone")
		c.wants(3, "left alone")
		c.wants(0, perigee.AccountSignedOut)
		c.wantStopped(0, 1)
		if n := c.asked("/token"); n != 2 {
			t.Errorf("the sign-in server was asked %d times", n)
		}
		_, err := c.tokens[3].Token(t.Context())
		e := wantClass(t, err, perigee.ClassUnauthenticated)
		if e.Retry != firstPause || !strings.Contains(e.Hint, "oauth.client_id") || !strings.HasPrefix(e.Message, "2 accounts were refused") || strings.Contains(e.Message, "@") {
			t.Errorf("retry after %s: %v", e.Retry, e)
		}
		pass(firstPause)
		c.wants(2, perigee.AccountSignedOut) // one is tried
		c.wants(3, "left alone")
		pass(firstPause)
		c.wants(3, "left alone") // for twice as long
		pass(firstPause)
		c.wants(4, perigee.AccountSignedOut)
		pass(4 * firstPause)
		c.wants(3, "ok")
		c.wants(5, "ok") // an accepted account proves that it was not the client
		c.wantStopped(0, 1, 2, 4)
	})
}

// Refreshes that began before the guard noticed do not stop their accounts either. It runs in a
// bubble.
func TestGuardDoesNotBelieveManyAtOnce(t *testing.T) {
	inCrowd(t, 8, func(t *testing.T, c *crowd) {
		c.pace = time.Second
		c.fault("/token", "invalid_grant", 8)
		var all sync.WaitGroup
		for i := range c.tokens {
			all.Go(func() { c.ask(i) })
		}
		all.Wait()
		if got := c.stopped(); len(got) != 2 {
			t.Errorf("%v are given up", got)
		}
		pass(time.Hour)
		for i := range c.tokens {
			if !slices.Contains(c.stopped(), i) {
				c.wants(i, "ok")
			}
		}
	})
}

func TestGuardKeepsNobodyFromATokenThatIsHeld(t *testing.T) {
	inCrowd(t, 4, func(t *testing.T, c *crowd) {
		c.wants(3, "ok")
		pass(56 * time.Minute) // it would be refreshed ahead of time
		c.fault("/token", "invalid_grant", 0)
		c.wants(0, perigee.AccountSignedOut)
		c.wants(1, perigee.AccountSignedOut)
		c.wants(3, "ok")
		synctest.Wait()
		c.wantStopped(0, 1)
	})
}

func TestGuardTellsCausesApart(t *testing.T) {
	inCrowd(t, 5, func(t *testing.T, c *crowd) {
		c.faults(simulator.Fault{When: simulator.When{Path: "/token"}, Do: "invalid_grant", Times: 1})
		c.wants(0, perigee.AccountSignedOut)
		c.faults(simulator.Fault{When: simulator.When{Path: "/token"}, Do: "banned", Times: 1})
		c.wants(1, perigee.AccountBanned)
		c.faults(simulator.Fault{When: simulator.When{Path: "/token"}, Do: "invalid_grant", Times: 1})
		c.wants(2, perigee.AccountSignedOut)
		pass(sameCause + time.Second)
		c.faults(simulator.Fault{When: simulator.When{Path: "/token"}, Do: "invalid_grant", Times: 1})
		c.wants(3, perigee.AccountSignedOut) // minutes apart it is not the same
		c.wants(4, "ok")
	})
}

// A network that is down, or an OAuth client that is not known, is no refusal of an account.
func TestGuardCountsOnlyWhatStopsAccounts(t *testing.T) {
	inCrowd(t, 4, func(t *testing.T, c *crowd) {
		c.fault("/token", "unavailable_503", 2)
		for i := range 2 {
			if got := c.ask(i); !strings.Contains(got, "issued no access token") {
				t.Errorf("%d: %s", i, got)
			}
		}
		secret := c.client.opts.ClientSecret
		c.client.opts.ClientSecret = perigee.Secret{}
		for i := range 3 {
			if got := c.ask(i); !strings.Contains(got, "OAuth client") {
				t.Errorf("%d: %s", i, got)
			}
		}
		c.client.opts.ClientSecret = secret
		c.wants(3, "ok")
		c.wantStopped()
	})
}

func TestGuardIsResetByNewSignIns(t *testing.T) {
	inCrowd(t, 3, func(t *testing.T, c *crowd) {
		c.fault("/token", "invalid_grant", 2)
		c.wants(0, perigee.AccountSignedOut)
		c.wants(1, perigee.AccountSignedOut)
		c.wants(2, "left alone")
		c.guard.Reset()
		c.wants(2, "ok")
	})
}

// A pause is over when the wall clock says so as well: a machine may sleep through it. Setting it
// back prolongs nothing.
func TestGuardKnowsThatClocksJump(t *testing.T) {
	inCrowd(t, 4, func(t *testing.T, c *crowd) {
		var jump time.Duration
		c.guard.clock = steadyclock.New(func() time.Time { return time.Now().Add(jump) })
		c.fault("/token", "invalid_grant", 2)
		c.wants(0, perigee.AccountSignedOut)
		c.wants(1, perigee.AccountSignedOut)
		jump = -time.Hour
		c.wants(2, "left alone")
		pass(firstPause)
		c.wants(2, "ok")
		c.fault("/token", "invalid_grant", 2)
		c.tokens[2].Refused(c.tokens[2].token.access)
		c.wants(2, perigee.AccountSignedOut)
		c.guard.refused["somebody else"] = true
		c.guard.pause, c.guard.began = firstPause, c.guard.clock.Now()
		c.wants(3, "left alone")
		jump = time.Minute
		c.wants(3, perigee.AccountSignedOut)
	})
}
