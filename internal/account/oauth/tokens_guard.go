package oauth

import (
	"strings"
	"sync"
	"time"

	"perigee"
	"perigee/internal/adapt/providererr"
	"perigee/internal/lib/steadyclock"
)

// Limits of a Guard.
const (
	// fewRefused is the number of refused accounts from which the cause is presumably not theirs.
	fewRefused = 2
	// sameCause is the time within which refusals presumably have one cause.
	sameCause = time.Minute
	// firstPause is how long no further account is tried. It doubles with each that is refused as
	// well.
	firstPause   = 10 * time.Second
	longestPause = 5 * time.Minute
)

// A Guard protects sign-ins that share an OAuth client from being signed out one after the other
// for a cause that is not theirs: a client that was replaced is refused like tokens that were
// revoked. When the sign-in server has refused two accounts for the same reason and accepted none
// in between, refreshing is paused for all other accounts, with an error that wraps
// providererr.ErrRefreshPaused, except for one at a time after each pause. Access tokens that are
// held already stay in use.
//
// All methods may be called concurrently.
type Guard struct {
	clock *steadyclock.Clock
	// names is the guard of the userinfo endpoint; nil in that guard itself. If the endpoint names
	// another owner for one account after the other, it is more likely to be wrong than the
	// accounts are.
	names *Guard

	mu          sync.Mutex
	cause       providererr.Kind
	lastRefusal *perigee.Error      // the last refusal
	refused     map[string]bool     // emails, since the last that was accepted
	last        steadyclock.Instant // when the last was refused
	pause       time.Duration       // 0 if nothing is paused
	began       steadyclock.Instant // this pause
	trying      string              // the account that is tried although there is a pause
}

// NewGuard returns a guard that has seen nothing.
func NewGuard(now func() time.Time) *Guard {
	g := newGuard(now)
	g.names = newGuard(now)
	return g
}

func newGuard(now func() time.Time) *Guard {
	return &Guard{clock: steadyclock.New(now), refused: map[string]bool{}}
}

func (g *Guard) age(at steadyclock.Instant) time.Duration { return g.clock.Now() - at }

// Reset clears the recorded refusals: the sign-in server has accepted an account, or there are new
// sign-ins.
func (g *Guard) Reset() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.reset()
}

func (g *Guard) reset() {
	clear(g.refused)
	g.pause, g.trying = 0, ""
}

// expire resets the guard if the last refusal is older than sameCause and two pauses. The lock is
// held.
func (g *Guard) expire() {
	if len(g.refused) > 0 && g.age(g.last) > sameCause+2*g.pause {
		g.reset()
	}
}

// check returns an error if the refresh of an account is paused.
func (g *Guard) check(email string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.checkPause(email)
}

// enter is check for an account that is refreshed now. It becomes the one that is tried after a
// pause.
func (g *Guard) enter(email string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.checkPause(email); err != nil {
		return err
	}
	if g.pause > 0 && !g.refused[email] {
		g.trying, g.began = email, g.clock.Now()
	}
	return nil
}

// checkPause returns the error for an account if its refresh is paused. Accounts that were refused
// already are not paused. The lock is held.
func (g *Guard) checkPause(email string) error {
	g.expire()
	left := g.pause - g.age(g.began)
	if g.pause == 0 || g.refused[email] || left <= 0 {
		return nil
	}
	return g.pausedError(left)
}

func (g *Guard) pausedError(left time.Duration) error {
	left = (max(left, time.Second) + time.Second - 1).Truncate(time.Second)
	e := perigee.Errorf(g.lastRefusal.Class, "%d accounts were refused by the sign-in server for the same cause (%s), so the other accounts are not refreshed for %s",
		len(g.refused), strings.TrimRight(g.lastRefusal.Message, "."), left)
	e.Retry, e.Cause = left, providererr.ErrRefreshPaused
	return e.WithHint("check that oauth.client_id of this upstream is the OAuth client that its accounts were signed in with; " +
		"`perigee account list` shows which were refused, and `perigee login` signs them in again")
}

// recordRefusal records a refusal. It returns nil if the refusal counts against the account, and
// otherwise the error for it: other accounts were refused for the same reason while this refresh
// was under way.
func (g *Guard) recordRefusal(email string, refusal *Refusal) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.expire()
	if g.cause != refusal.Kind {
		g.reset()
	}
	g.cause, g.lastRefusal, g.last = refusal.Kind, refusal.Diagnosis.Error, g.clock.Now()
	if g.refused[email] {
		return nil
	}
	if g.pause > 0 && g.trying != email {
		return g.pausedError(g.pause - g.age(g.began))
	}
	g.refused[email], g.trying = true, ""
	if len(g.refused) >= fewRefused {
		g.pause = min(max(firstPause, 2*g.pause), longestPause)
		g.began = g.last
	}
	return nil
}
