package pool

import (
	"context"
	"time"
)

const (
	// MaxSessions is how many sessions are kept on their account. The least recently used one is
	// forgotten first.
	MaxSessions = 4096
	maxPending  = 1000 // sessions that wait to be stored
	// recallTime is how long a session that is new to this pool waits for the store to name its
	// account. Without an answer it is treated as new.
	recallTime = 250 * time.Millisecond
)

// A SessionStore returns the account of a session that this pool does not have, because other
// replicas lease the same accounts. The family and the pool are as in a perigee.Cooldown.
type SessionStore interface {
	SaveSession(ctx context.Context, session, family, email, pool string) error
	// FindSession returns empty strings when the session is unknown.
	FindSession(ctx context.Context, session, family string) (email, pool string, err error)
	// ForgetSessions removes the accounts of all sessions, so that each chooses again.
	ForgetSessions(ctx context.Context) error
}

// A binding is the account that a session is served by, and from which quota group.
type binding struct {
	member *member
	group  *quotaGroup
}

type sessionKey struct {
	session string
	group   group
}

// boundTo returns the binding of a session, unless its account was removed.
func (p *Pool) boundTo(key sessionKey) (binding, bool) {
	b, ok := p.sessions.Get(key)
	return b, ok && key.session != "" && b.member.index >= 0
}

// recall binds a session that this pool does not have to the account that the store has for it.
func (a *acquisition) recall(ctx context.Context) {
	p := a.pool
	if p.opts.Sessions == nil || a.req.Session == "" || a.models == groupControl {
		return
	}
	key := sessionKey{a.req.Session, a.models}
	p.mu.Lock()
	_, known := p.boundTo(key)
	known = known || p.restored
	p.mu.Unlock()
	if known {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, recallTime)
	defer cancel()
	email, pool, err := p.opts.Sessions.FindSession(ctx, a.req.Session, string(a.models))
	if err != nil {
		p.opts.Logger.Debug("session not looked up", "error", err)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, known := p.boundTo(key); !known {
		p.restoreSession(a.req.Session, string(a.models), email, pool)
	}
}

// RestoreSession binds a session to the account that it was on before the start, if the account is
// still there. The latest session is restored last.
func (p *Pool) RestoreSession(session, family, email, pool string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.restoreSession(session, family, email, pool)
}

func (p *Pool) restoreSession(session, family, email, pool string) {
	m := p.find(email)
	for _, g := range p.byGroup[group(family)] {
		if m != nil && g.pool == pool {
			p.sessions.Put(sessionKey{session, g.group}, binding{m, g})
		}
	}
}

// SessionsRestored reports that every session of the store was restored, and that only this pool
// adds to it: a session that the pool does not have is new, and no call has to read the store for
// it.
func (p *Pool) SessionsRestored() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.restored = true
}

// bind keeps the session of a call on an account from now on, and stores that for other replicas.
func (a *acquisition) bind(b binding) {
	p, key := a.pool, sessionKey{a.req.Session, a.models}
	if key.session == "" {
		return
	}
	before, known := p.boundTo(key)
	p.sessions.Put(key, b)
	if p.opts.Sessions != nil && (!known || before != b) && key.group != groupControl {
		p.bindings.Put(key, key)
	}
}

// forgetSessions removes the accounts of all sessions, here and in other replicas. Those that wait
// to be stored are not stored any more.
func (p *Pool) forgetSessions() {
	p.sessions.Clear()
	store := p.opts.Sessions
	if store == nil {
		return
	}
	p.callbacks = append(p.callbacks, func() {
		ctx, cancel := context.WithTimeout(context.Background(), saveTime)
		defer cancel()
		if err := store.ForgetSessions(ctx); err != nil {
			p.opts.Logger.Debug("sessions not deleted", "error", err)
		}
	})
}
