package oauth

import (
	"strings"
	"sync"
	"time"

	"perigee"
	"perigee/internal/account"
	"perigee/internal/verdict"
)

// How a Guard judges.
const (
	fewRefused   = 2                // accounts that may be refused alike before it is taken for something else
	sameCause    = time.Minute      // within which refusals are taken for one
	firstPause   = 10 * time.Second // before another account is tried; it doubles with each that is refused as well
	longestPause = 5 * time.Minute
)

// A Guard keeps the sign-ins that share an OAuth client from being given up one after the other for a cause that is not
// theirs: a client that was replaced is refused like tokens that were revoked. When the sign-in server has refused two
// accounts alike and accepted none in between, the others are left alone, with an error that wraps account.ErrLeftAlone, but
// for one at a time after a pause. Access tokens that are held already stay in use.
//
// All methods may be called concurrently. A nil Guard keeps nobody from anything.
type Guard struct {
	now     func() time.Time
	elapsed func() time.Duration // monotonic

	names *Guard // of what is said about whose accounts they are

	mu      sync.Mutex
	cause   verdict.Kind
	says    *perigee.Error  // the last refusal
	refused map[string]bool // emails, since the last that was accepted
	last    moment          // when the last was refused
	pause   time.Duration   // 0: nobody is left alone
	began   moment          // this pause
	trying  string          // who is tried although there is a pause
}

// A moment is a time on both clocks, so that its age is known whichever of them jumps or stands still.
type moment struct {
	wall time.Time
	mono time.Duration
}

// NewGuard returns a guard that has seen nothing. A nil now is time.Now.
func NewGuard(now func() time.Time) *Guard {
	if now == nil {
		now = time.Now
	}
	g := newGuard(now)
	g.names = newGuard(now)
	return g
}

func newGuard(now func() time.Time) *Guard {
	start := time.Now()
	return &Guard{now: now, elapsed: func() time.Duration { return time.Since(start) }, refused: map[string]bool{}}
}

// ofNames is the guard for who is asked whose an account is: one that names the wrong owner for one account after the
// other is more likely to be wrong itself.
func (g *Guard) ofNames() *Guard {
	if g == nil {
		return nil
	}
	return g.names
}

func (g *Guard) present() moment { return moment{g.now().Round(0), g.elapsed()} }

func (g *Guard) age(m moment) time.Duration {
	now := g.present()
	return max(now.mono-m.mono, now.wall.Sub(m.wall))
}

// Reset forgets what was refused, for when there are new sign-ins.
func (g *Guard) Reset() {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.reset()
}

func (g *Guard) reset() {
	clear(g.refused)
	g.pause, g.trying = 0, ""
}

// forget resets what is so long ago that it has nothing to do with what happens now.
func (g *Guard) forget() {
	if len(g.refused) > 0 && g.age(g.last) > sameCause+2*g.pause {
		g.reset()
	}
}

// check says whether an account may be refreshed now, without doing anything about it.
func (g *Guard) check(email string) error {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.keeps(email)
}

// enter says whether an account may be refreshed now, for whoever does so next. After a pause it lets in one.
func (g *Guard) enter(email string) error {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.keeps(email); err != nil {
		return err
	}
	if g.pause > 0 && !g.refused[email] {
		g.trying, g.began = email, g.present()
	}
	return nil
}

// keeps is the error for somebody who is left alone. Those who were refused already have nothing to lose.
func (g *Guard) keeps(email string) error {
	g.forget()
	left := g.pause - g.age(g.began)
	if g.pause == 0 || g.refused[email] || left <= 0 {
		return nil
	}
	return g.leftAlone(left)
}

func (g *Guard) leftAlone(left time.Duration) error {
	left = (max(left, time.Second) + time.Second - 1).Truncate(time.Second)
	e := perigee.Errorf(g.says.Class, "%d accounts were refused by the sign-in server for the same cause (%s), and the others are left alone for %s",
		len(g.refused), strings.TrimRight(g.says.Message, "."), left)
	e.Retry, e.Cause = left, account.ErrLeftAlone
	return e.WithNext("check that oauth.client_id of this upstream is the OAuth client that its accounts were signed in with; " +
		"`perigee account list` shows who was refused, and `perigee login` signs them in again")
}

// accepted says that the sign-in server takes what it is sent.
func (g *Guard) accepted() { g.Reset() }

// believe says whether a refusal counts against the account. It does not, and the error says why, when others were refused
// alike while this one was asked for.
func (g *Guard) believe(email string, refusal *Refusal) error {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.forget()
	if g.cause != refusal.Kind {
		g.reset()
	}
	g.cause, g.says, g.last = refusal.Kind, refusal.Verdict.Error, g.present()
	if g.refused[email] {
		return nil
	}
	if g.pause > 0 && g.trying != email {
		return g.leftAlone(g.pause - g.age(g.began))
	}
	g.refused[email], g.trying = true, ""
	if len(g.refused) >= fewRefused {
		g.pause = min(max(firstPause, 2*g.pause), longestPause)
		g.began = g.last
	}
	return nil
}
