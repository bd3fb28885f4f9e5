package account

import (
	"context"
	"time"

	"perigee"
	"perigee/internal/verdict"
)

// A SessionStore knows which account a session is with when this pool does not, because others lend the same accounts.
// The family and the pool are as in a perigee.Cooldown.
type SessionStore interface {
	SaveSession(ctx context.Context, session, family, email, pool string) error
	// FindSession returns nothing when nobody knows.
	FindSession(ctx context.Context, session, family string) (email, pool string, err error)
	// ForgetSessions lets all sessions choose anew.
	ForgetSessions(ctx context.Context) error
}

// recallTime is how long a session that is new here waits to learn where it was before. Without an answer it is as good
// as new.
const recallTime = 250 * time.Millisecond

// recall binds a session that this pool does not know to the account that others have served it with.
func (p *Pool) recall(ctx context.Context, b *borrowing) {
	if p.opts.Sessions == nil || b.want.Session == "" || b.group == groupControl {
		return
	}
	p.mu.Lock()
	_, known := p.sessions.find(b.want.Session, b.group)
	known = known || p.restored
	p.mu.Unlock()
	if known {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, recallTime)
	defer cancel()
	email, pool, err := p.opts.Sessions.FindSession(ctx, b.want.Session, string(b.group))
	if err != nil {
		p.opts.Logger.Debug("session not found again", "error", err)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.find(email)
	for _, l := range b.lanes {
		if _, known := p.sessions.find(b.want.Session, b.group); m != nil && l.pool == pool && !known {
			p.sessions.bind(b.want.Session, b.group, binding{m, l})
		}
	}
}

// RestoreSession binds a session to the account that it was with when the process began, if the account is still there. The
// latest comes last.
func (p *Pool) RestoreSession(session, family, email, pool string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.find(email)
	for _, l := range p.lanes {
		if m != nil && l.pool == pool && string(l.group) == family {
			p.sessions.bind(session, l.group, binding{m, l})
		}
	}
}

// SessionsRestored says that every session was restored which the store has, and that only this pool adds to it: a session that the
// pool does not know is new, and no call has to ask the store for it.
func (p *Pool) SessionsRestored() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.restored = true
}

// bind keeps a session on an account from now on, and lets others know.
func (p *Pool) bind(session string, g group, b binding) {
	before, known := p.sessions.find(session, g)
	p.sessions.bind(session, g, b)
	if p.opts.Sessions != nil && (!known || before != b) && g != groupControl {
		p.bindings.save(sessionKey{session, g}, home{b.member.email, b.lane.pool})
	}
}

// forgetSessions lets sessions choose anew, here and wherever else the accounts are lent.
func (p *Pool) forgetSessions() {
	p.sessions = newSessions(MaxSessions)
	store := p.opts.Sessions
	if store == nil {
		return
	}
	p.bindings.drop()
	p.after = append(p.after, func() {
		ctx, cancel := context.WithTimeout(context.Background(), saveTime)
		defer cancel()
		if err := store.ForgetSessions(ctx); err != nil {
			p.opts.Logger.Debug("sessions not forgotten", "error", err)
		}
	})
}

// share takes over the cooldowns of a member that others have stored since. What this pool has stored itself, or has
// taken over before, is no news, even if it has ended that rest in the meantime.
func (p *Pool) share(m *member, now instant) {
	for _, c := range m.signIn.Cooldowns {
		if c.Family == formerThird {
			p.saveCooldown(m, perigee.Cooldown{Family: formerThird, Pool: c.Pool, Until: p.opts.Now(), Reason: c.Reason})
		}
		s, l := p.slotOf(m, c)
		if s == nil || c.Until.Sub(s.stored).Abs() < time.Millisecond {
			continue
		}
		s.stored = c.Until
		d := min(c.Until.Sub(p.opts.Now()), verdict.MaxDelay)
		if d <= 0 || now+d <= s.until {
			continue
		}
		s.rest = rest{since: now, until: now + d, kind: verdict.Kind(c.Reason), told: true}
		p.events.push(event{at: s.until, member: m, lane: l})
		if c.Family == formerThird {
			p.keep(m, l, s.rest, now)
		}
	}
}

// slotOf finds what a cooldown is about; nil: nothing that this pool knows. The lane is nil for the whole account.
func (p *Pool) slotOf(m *member, c perigee.Cooldown) (*slot, *lane) {
	if c.Family == "" && c.Pool == "" {
		return &m.whole, nil
	}
	if c.Family == formerThird {
		c.Family = string(groupThird)
	}
	for _, l := range p.lanes {
		if string(l.group) == c.Family && l.pool == c.Pool {
			return &m.slots[l.id], l
		}
	}
	return nil, nil
}

// A home is where a session is, as a SessionStore knows it.
type home struct{ email, pool string }

// maxPending is how many sessions wait to be stored.
const maxPending = 1000
