// Package account is the pool: which account is asked next, and which are left alone.
//
// A Pool lends accounts to calls. Each comes back with a verdict.Verdict, from which the pool knows who rests, for which models and
// until when; it keeps sessions on their account, spares those of whom little is left, and lets calls wait where that is worth
// it. It has a clock and timers, remembers, and stores what the next start should know.
//
// It never calls the provider, reads no answers and keeps no tokens: package verdict says what an answer means, and a
// Source has the tokens. The antigravity upstream borrows here, and the daemon brings the sources.
package account

import (
	"container/list"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"perigee"
)

// A Source is a sign-in that can be lent. All methods may be called concurrently. SignIn may not call the pool.
type Source interface {
	SignIn() perigee.SignIn
	// Token returns an access token that is still good for a while. An error with a Verdict in it is taken for what that says;
	// any other stops the account if it is of perigee.ClassUnauthenticated (only a new sign-in helps) or of
	// perigee.ClassVerification, and otherwise lets it rest for a little. ErrLeftAlone in it does neither.
	Token(ctx context.Context) (perigee.Secret, error)
	Refused(token perigee.Secret)
}

// ErrLeftAlone is inside the error of a Source that was not asked for a token, because others have just lost theirs to a
// cause that may not be their own. It says nothing about the account.
var ErrLeftAlone = errors.New("the account is left alone")

// A CooldownStore keeps cooldowns for the next start, at which they come back in the sign-ins. One that is over replaces
// the one that there was for the same family and pool.
type CooldownStore interface {
	SaveCooldown(ctx context.Context, upstream, email string, c perigee.Cooldown) error
}

// The ways to choose an account.
const (
	Sticky     = "sticky"      // stay with one while it is usable, because prompt caches are per account
	RoundRobin = "round_robin" // take turns
	Hybrid     = "hybrid"      // weigh health, pace, rest and quota
)

// The pools of quota that an account has.
const (
	PoolAntigravity = "antigravity"
	PoolCLI         = "gemini-cli" // takes text models of the Gemini family only
)

// Options say how a Pool chooses.
type Options struct {
	Selection   string        // empty: Sticky
	Pools       []string      // in the order in which they are tried; nil: PoolAntigravity, then PoolCLI
	MaxWait     time.Duration // longest wait of one call, over all its loans; 0: never wait
	SoftQuota   float64       // used fraction from which an account is spared while others are usable; 0 and 1: never
	Concurrency int           // calls that an account may have at a time; 0: any number
	// OnState is told when an account stops because of what the provider said, so that it can be stored. It is called by
	// whoever gave the account back, after that has taken effect.
	OnState  func(Stop)
	Look     Look             // nil: rests are not doubted before their time
	Store    CooldownStore    // nil: cooldowns are forgotten at the end
	Sessions SessionStore     // nil: nobody else lends these accounts
	Now      func() time.Time // nil: time.Now
	Logger   *slog.Logger     // nil: discard
}

// A Stop says that an account is out of use, and why. It is old news if the account has another generation by now.
type Stop struct {
	Email, State, Reason string
	Generation           int64 // of the sign-in that it was said about
}

// A Pool lends accounts. It knows which of them rest, for which models and until when, keeps sessions on their account,
// and lets calls wait when nobody is usable but somebody will be soon. It never calls the provider; what it knows it learns
// from the verdicts that come back with its loans and from ReportQuota.
//
// All methods may be called concurrently.
type Pool struct {
	opts  Options
	clock clock

	rests    saver[resting, perigee.Cooldown]
	bindings saver[sessionKey, home]

	mu       sync.Mutex
	members  []*member // in the order of SetSources; member.index is the place
	removed  []*member // those that still have loans out
	gauges   []gauge   // of members, for Hybrid
	lanes    []*lane
	byGroup  map[group][]*lane // the same, in the order of the pools; never changed
	busy     bitset            // members that have as many loans as they may
	faulty   bitset            // members that rest because the provider keeps failing them
	sessions sessions
	restored bool // the store has no session that sessions never had
	had      had
	reports  reports
	brake    brake
	looking  <-chan struct{} // is closed when the figures that were asked for last are here
	events   events
	waiters  list.List // of *waiter, in the order in which they came
	alarm    *time.Timer
	armed    bool
	changed  bool     // somebody may have become usable since waiters were last served
	after    []func() // to be done without the lock
}

// NewPool returns a pool without accounts.
func NewPool(opts Options) *Pool {
	if opts.Selection == "" {
		opts.Selection = Sticky
	}
	if opts.Pools == nil {
		opts.Pools = []string{PoolAntigravity, PoolCLI}
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	p := &Pool{opts: opts, clock: newClock(opts.Now), lanes: newLanes(opts.Pools), sessions: newSessions(MaxSessions), had: had{}, reports: reports{}}
	p.byGroup = map[group][]*lane{}
	for _, l := range p.lanes {
		p.byGroup[l.group] = append(p.byGroup[l.group], l)
	}
	p.rests.what, p.rests.logger = "cooldown", opts.Logger
	p.rests.store = func(ctx context.Context, r resting, c perigee.Cooldown) error {
		return opts.Store.SaveCooldown(ctx, r.upstream, r.email, c)
	}
	p.bindings.what, p.bindings.logger, p.bindings.most = "session", opts.Logger, maxPending
	p.bindings.store = func(ctx context.Context, key sessionKey, h home) error {
		return opts.Sessions.SaveSession(ctx, key.session, string(key.group), h.email, h.pool)
	}
	return p
}

// unlock ends a turn with the pool: it serves those who wait, if something has changed for them, and does what must be
// done without the lock.
func (p *Pool) unlock() {
	p.settle()
	after := p.after
	p.after = nil
	p.mu.Unlock()
	for _, f := range after {
		f()
	}
}

// advance brings the pool up to the present: whose rest is over is usable again.
func (p *Pool) advance() instant {
	now := p.clock.read()
	for len(p.events) > 0 && p.events[0].at <= now {
		p.happen(p.events.pop(), now)
	}
	return now
}

// Close waits until all cooldowns and sessions are stored. The pool can be used as before.
func (p *Pool) Close() {
	p.rests.wait()
	p.bindings.wait()
}
