package account

import (
	"container/list"
	"context"
	"errors"
	"log/slog"
	"slices"
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
	saver saver

	bindings bindingSaver

	mu       sync.Mutex
	members  []*member // in the order of SetSources; member.index is the place
	removed  []*member // those that still have loans out
	gauges   []gauge   // of members, for Hybrid
	lanes    []*lane
	byGroup  map[group][]*lane // the same, in the order of the pools; never changed
	busy     bitset            // members that have as many loans as they may
	sessions sessions
	trails   trails
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
	p := &Pool{opts: opts, clock: newClock(opts.Now), lanes: newLanes(opts.Pools), sessions: newSessions(maxSessions), trails: trails{}, had: had{}, reports: reports{}}
	p.byGroup = map[group][]*lane{}
	for _, l := range p.lanes {
		p.byGroup[l.group] = append(p.byGroup[l.group], l)
	}
	p.saver.store, p.saver.logger = opts.Store, opts.Logger
	p.bindings.store, p.bindings.logger = opts.Sessions, opts.Logger
	return p
}

var _ Lender = (*Pool)(nil)

// Lend lends an account that can be asked for what is wanted, and whose access token is good. A session stays with its
// account while that is usable. When nobody is usable but somebody will be in time, Lend waits; those who came first
// are served first. Otherwise the error is a *perigee.Error that says what the accounts wait for, with the time after
// which to try again.
func (p *Pool) Lend(ctx context.Context, want Want) (Loan, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	a, err := p.begin(want)
	if err != nil {
		return nil, err
	}
	p.recall(ctx, a)
	for {
		l, err := p.obtain(ctx, a)
		if err != nil && a.tokenErr != nil {
			return nil, a.tokenErr // it says more than that nobody is left
		}
		if err != nil {
			return nil, err
		}
		if !l.paused(ctx) {
			l.release()
			return nil, ctx.Err()
		}
		if l.prepare(ctx, a) {
			return l, nil
		}
		if a.over {
			return nil, a.tokenErr
		}
	}
}

// asking is one Lend on its way.
type asking struct {
	want  Want
	group group
	lanes []*lane // in the order of the configured pools
	trail trail   // what the call met before; zero on its first loan

	began    instant
	deadline instant // until when it may wait

	looked   bool // it has had the quotas looked at
	overflow bool // the session's account is only busy, so the session stays bound to it

	tokenless []*member // whose access token could not be renewed
	failures  int       // how many of them were tried
	tokenErr  error     // why, the last time
	over      bool      // tokenErr is the answer
}

// excludes says whether a call does not want an account, because its access token cannot be renewed.
func (a *asking) excludes(m *member) bool { return slices.Contains(a.tokenless, m) }

func (p *Pool) begin(want Want) (*asking, error) {
	a := &asking{want: want, group: groupOf(want)}
	a.lanes = p.byGroup[a.group]
	if len(a.lanes) == 0 {
		return nil, perigee.Errorf(perigee.ClassNotFound, "%s can only be asked from the pool %s", want.Model, PoolAntigravity).
			WithNext("add %s to pools of this upstream in the configuration", PoolAntigravity)
	}
	p.mu.Lock()
	defer p.unlock()
	a.began = p.clock.read()
	a.trail = p.trails.follow(want, a.began)
	a.deadline = a.began + max(0, p.opts.MaxWait-a.trail.waited)
	a.tokenless, a.failures, a.tokenErr = slices.Clone(a.trail.tokenless), len(a.trail.tokenless), a.trail.tokenErr
	return a, nil
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
	p.saver.wait()
	p.bindings.wait()
}
