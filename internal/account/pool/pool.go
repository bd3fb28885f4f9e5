// Package pool chooses the account that a call is made with.
//
// A Pool leases accounts to calls. Each lease ends with a providererr.Diagnosis, from which the
// pool learns which account cools down, for which models and until when. It keeps sessions on their
// account, prefers accounts that have enough quota left, and lets calls wait where an account is
// back in time. Cooldowns and sessions are stored for the next start.
//
// The pool never calls the provider, reads no answers and keeps no tokens: package providererr
// classifies answers, and a Source has the tokens. The antigravity upstream leases accounts here,
// and the daemon provides the sources.
package pool

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"perigee"
	"perigee/internal/adapt/providererr"
	"perigee/internal/lib/lru"
	"perigee/internal/lib/steadyclock"
	"perigee/internal/store/batchwriter"
)

// A Source is a sign-in that can be leased. All methods may be called concurrently. SignIn may not
// call the pool.
type Source interface {
	SignIn() perigee.SignIn
	// Token returns an access token that is still valid for a while. A Diagnosis inside its error
	// is applied to the account. Any other error stops the account if it is of
	// perigee.ClassUnauthenticated (only a new sign-in helps) or of perigee.ClassVerification, and
	// otherwise starts a short cooldown. providererr.ErrRefreshPaused does neither.
	Token(ctx context.Context) (perigee.Secret, error)
	Refused(token perigee.Secret)
}

// A CooldownStore keeps cooldowns for the next start, at which they come back in the sign-ins. A
// cooldown that is over replaces the stored one of the same family and pool.
type CooldownStore interface {
	SaveCooldown(ctx context.Context, upstream, email string, c perigee.Cooldown) error
}

// The selection strategies.
const (
	// Sticky stays with one account while it is usable, because prompt caches are per account.
	Sticky = "sticky"
	// RoundRobin uses the accounts in turn.
	RoundRobin = "round_robin"
	// Hybrid uses the account with the highest score of health, load, idle time and quota.
	Hybrid = "hybrid"
)

// The pools of quota that an account has.
const (
	PoolAntigravity = "antigravity"
	PoolCLI         = "gemini-cli" // takes text models of the Gemini family only
)

// Options configure a Pool.
type Options struct {
	Selection string        // Sticky if empty
	Pools     []string      // in the order of use; nil for PoolAntigravity, then PoolCLI
	MaxWait   time.Duration // the longest wait of one call, over all its leases; 0 for none
	// SoftQuota is the used fraction from which an account is chosen only if no other is usable. 0
	// and 1 turn that off.
	SoftQuota   float64
	Concurrency int // leases that an account may have at a time; 0 for any number
	// OnState is called when an answer of the provider stops an account, so that it can be stored.
	// It runs in the goroutine that ended the lease, after the stop has taken effect.
	OnState  func(Stop)
	Look     Look             // if nil, quota cooldowns are not checked before they end
	Store    CooldownStore    // if nil, cooldowns are not stored
	Sessions SessionStore     // if nil, sessions are not stored
	Now      func() time.Time // time.Now if nil
	Logger   *slog.Logger     // nil discards all records
}

// A Stop reports that an account is out of use, and why. It is out of date if the account has
// another generation by now.
type Stop struct {
	Email, State, Reason string
	Generation           int64 // of the sign-in that it is about
}

// An instant is a time on the clock of the pool.
type instant = steadyclock.Instant

// A Pool leases accounts. It never calls the provider: it learns from the diagnoses that end its
// leases, and from ReportQuota and Report. All methods may be called concurrently.
//
// Every choice is a scan over the members under one mutex. BenchmarkAcquire1000 measures it.
type Pool struct {
	opts      Options
	cooldowns *batchwriter.Writer[cooldownKey, storedCooldown]
	bindings  *batchwriter.Writer[sessionKey, sessionKey]

	mu       sync.Mutex
	clock    *steadyclock.Clock
	now      instant   // when the lock was taken
	members  []*member // in the order of SetSources; member.index is the place
	removed  []*member // members without a source that still have leases
	groups   []*quotaGroup
	byGroup  map[group][]*quotaGroup // the same, in the order of Options.Pools
	sessions lru.Map[sessionKey, binding]
	restored bool // sessions has every session that the store has
	// served is when a model was last seen with any account, in an answer or in a report of quota.
	served    lru.Map[string, instant]
	reports   map[providererr.Kind][]occurrence // accounts that Report has stopped lately
	breaker   breaker
	looking   <-chan struct{} // closed when the figures of the last Look are reported
	waiters   []*acquisition  // calls that wait, in the order in which they came
	alarm     *time.Timer     // serves the waiters when the next cooldown ends; nil if not needed
	callbacks []func()        // to be called without the lock
}

// New returns a pool without accounts.
func New(opts Options) *Pool {
	opts.Selection = cmp.Or(opts.Selection, Sticky)
	if opts.Pools == nil {
		opts.Pools = []string{PoolAntigravity, PoolCLI}
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	p := &Pool{opts: opts, clock: steadyclock.New(opts.Now), groups: newQuotaGroups(opts.Pools), byGroup: map[group][]*quotaGroup{},
		sessions: lru.Map[sessionKey, binding]{MaxEntries: MaxSessions}, served: lru.Map[string, instant]{MaxEntries: maxServed},
		reports: map[providererr.Kind][]occurrence{}}
	for _, g := range p.groups {
		p.byGroup[g.group] = append(p.byGroup[g.group], g)
	}
	p.cooldowns = batchwriter.New[cooldownKey](batchwriter.Options[storedCooldown]{Rows: "cooldowns", Save: p.saveCooldowns, Logger: opts.Logger})
	p.bindings = batchwriter.New[sessionKey](batchwriter.Options[sessionKey]{
		Rows: "sessions", MaxRows: maxPending, Save: p.saveSessions, Logger: opts.Logger})
	return p
}

// lock locks the pool, and reads the clock: all that happens under one lock happens at the same
// time.
func (p *Pool) lock() {
	p.mu.Lock()
	p.now = p.clock.Now()
}

// date returns an instant on the wall clock, for people and stores.
func (p *Pool) date(at instant) time.Time { return p.opts.Now().Round(0).Add(at - p.now) }

// unlock serves the waiting calls, because the change made under the lock may have made an account
// usable, and then runs the callbacks that need the lock released.
func (p *Pool) unlock() {
	p.serveWaiters()
	after := p.callbacks
	p.callbacks = nil
	p.mu.Unlock()
	for _, f := range after {
		f()
	}
}

// logAfter writes a log line once the lock is released.
func (p *Pool) logAfter(level slog.Level, message string, args ...any) {
	p.callbacks = append(p.callbacks, func() { p.opts.Logger.Log(context.Background(), level, message, args...) })
}

// Close waits until all cooldowns and sessions are stored. The pool can be used as before.
func (p *Pool) Close() {
	p.cooldowns.Flush(context.Background())
	p.bindings.Flush(context.Background())
}

func (p *Pool) find(email string) *member {
	if i := slices.IndexFunc(p.members, func(m *member) bool { return m.email == email }); i >= 0 {
		return p.members[i]
	}
	return nil
}

// Use makes an account the one that sticky selection stays with from now on; sessions may move to
// it as well. Its cooldowns end, too, because the owner has selected it.
func (p *Pool) Use(email string) error {
	p.lock()
	defer p.unlock()
	m := p.find(email)
	if m == nil {
		return errUnknown(email)
	}
	m.clearCooldowns()
	p.forgetSessions()
	p.breaker.reset()
	for _, g := range p.groups {
		g.current, g.turn = m, m.index-1
	}
	return nil
}

// Clear ends all cooldowns of an account, or of all accounts when email is empty, and resets the
// circuit breaker. A cooldown that is still needed starts again with the next answer of the
// provider.
func (p *Pool) Clear(email string) error {
	p.lock()
	defer p.unlock()
	m := p.find(email)
	if m == nil && email != "" {
		return errUnknown(email)
	}
	for _, each := range p.members {
		if m == nil || m == each {
			each.clearCooldowns()
		}
	}
	p.breaker.reset()
	return nil
}

func errUnknown(email string) error {
	return perigee.Errorf(perigee.ClassNotFound, "there is no account %s", email).WithHint("see `perigee account list`")
}

// A Status is the state of an account, and its cooldowns.
type Status struct {
	perigee.Account
	Reason  string // why it cannot be used; empty when it can, or only cools down
	Refused string // the project that the provider does not let it use; empty if there is none
}

// Status lists the accounts.
func (p *Pool) Status() []Status {
	p.lock()
	defer p.unlock()
	statuses := make([]Status, len(p.members))
	for i, m := range p.members {
		s := Status{Account: m.signIn.Account}
		s.State, s.Cooldowns = m.state(), m.listCooldowns()
		if !perigee.UsableState(s.State) {
			s.Reason = cmp.Or(m.reason, m.signIn.Reason)
		} else if m.projectRefused() {
			s.Reason, s.Refused = m.describe(providererr.KindProject), m.signIn.ProjectID
		}
		if m.inUse() && p.breaker.open(p.now) {
			s.Reason = p.breakerExplanation()
			s.Cooldowns = append(s.Cooldowns, perigee.Cooldown{Until: p.breakerEnd(), Reason: reasonBreakerOpen})
		}
		statuses[i] = s
	}
	return statuses
}
