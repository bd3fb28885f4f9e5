package sqlstore

import (
	"context"
	"time"

	"perigee/internal/store/sqlstore/engine"
)

// sessionTime is how long the account of a session is stored: longer than any prompt cache lives.
const sessionTime = 6 * time.Hour

var saveSession = engine.Upsert("sessions", "upstream, session, family", "upstream, session, family, email, pool, expires_us")

const (
	dropSessions   = `DELETE FROM sessions WHERE expires_us <= $1`
	forgetSessions = `DELETE FROM sessions WHERE upstream = $1`
	selectSessions = `SELECT session, family, email, pool FROM sessions
		WHERE upstream = $1 AND expires_us > $2 ORDER BY expires_us DESC LIMIT $3`
	selectSession = `SELECT email, pool FROM sessions WHERE upstream = $1 AND session = $2 AND family = $3 AND expires_us > $4`
)

// Sessions is the part of a Store with the accounts of an upstream that sessions use.
type Sessions struct {
	store    *Store
	upstream string
}

// Sessions returns the sessions of an upstream. It is valid until the Store is closed.
func (s *Store) Sessions(upstream string) *Sessions { return &Sessions{s, upstream} }

// SaveSession stores the account, and its pool of quota, of a session for a family of models, in
// place of the previous one. It expires after some hours.
func (n *Sessions) SaveSession(ctx context.Context, session, family, email, pool string) error {
	now := n.store.now()
	return n.store.db.Transact(ctx, "save a session in", func(ctx context.Context, tx engine.Tx) error {
		if _, err := tx.Exec(ctx, dropSessions, now.UnixMicro()); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, saveSession, n.upstream, session, family, email, pool, now.Add(sessionTime).UnixMicro())
		return err
	})
}

// FindSession returns the account of a session; nothing when there is none.
func (n *Sessions) FindSession(ctx context.Context, session, family string) (email, pool string, err error) {
	defer n.store.db.Explain("read a session from", &err)
	_, err = engine.One(ctx, n.store.db, selectSession, []any{n.upstream, session, family, n.store.now().UnixMicro()}, &email, &pool)
	return email, pool, err
}

// A KnownSession is a session, for a family of models, and the account and pool of quota that it is
// with.
type KnownSession struct{ Session, Family, Email, Pool string }

// Known returns the sessions that have not expired, the latest first, and at most most of them.
func (n *Sessions) Known(ctx context.Context, most int) (list []KnownSession, err error) {
	defer n.store.db.Explain("read sessions from", &err)
	args := []any{n.upstream, n.store.now().UnixMicro(), most}
	return engine.List(ctx, n.store.db, selectSessions, args, func(k *KnownSession) []any {
		return []any{&k.Session, &k.Family, &k.Email, &k.Pool}
	})
}

// ForgetSessions removes the accounts of all sessions.
func (n *Sessions) ForgetSessions(ctx context.Context) error {
	_, err := n.store.db.Exec(ctx, "forget sessions in", forgetSessions, n.upstream)
	return err
}
