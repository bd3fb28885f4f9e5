package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// sessionTime is how long it is kept which account a session was with: longer than any prompt cache lives.
const sessionTime = 6 * time.Hour

const (
	saveSession = `INSERT INTO sessions (upstream, session, family, email, pool, expires_us) VALUES ($1, $2, $3, $4, $5, $6)
	ON CONFLICT (upstream, session, family) DO UPDATE SET email = excluded.email, pool = excluded.pool, expires_us = excluded.expires_us`
	dropSessions   = `DELETE FROM sessions WHERE expires_us <= $1`
	forgetSessions = `DELETE FROM sessions WHERE upstream = $1`
	selectSessions = `SELECT session, family, email, pool FROM sessions WHERE upstream = $1 AND expires_us > $2 ORDER BY expires_us DESC LIMIT $3`
	selectSession  = `SELECT email, pool FROM sessions WHERE upstream = $1 AND session = $2 AND family = $3 AND expires_us > $4`
)

// Sessions is the part of a Store that knows which accounts of an upstream sessions are with.
type Sessions struct {
	store    *Store
	upstream string
}

// Sessions returns what is known about the sessions of the upstream. It is valid until the Store is closed.
func (s *Store) Sessions(upstream string) *Sessions { return &Sessions{s, upstream} }

// SaveSession keeps which account, in which pool of quota, a session is with for a family of models, in place of the one
// before. It is forgotten after some hours.
func (n *Sessions) SaveSession(ctx context.Context, session, family, email, pool string) error {
	s := n.store
	if err := s.writable("save a session"); err != nil {
		return err
	}
	now := s.now()
	return s.explain("save a session in", s.transact(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, dropSessions, now.UnixMicro()); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, saveSession, n.upstream, s.engine.text(session), family, email, pool, now.Add(sessionTime).UnixMicro())
		return err
	}))
}

// FindSession returns which account a session is with; nothing when nobody knows.
func (n *Sessions) FindSession(ctx context.Context, session, family string) (email, pool string, err error) {
	s := n.store
	err = s.one(ctx, selectSession, []any{n.upstream, s.engine.text(session), family, s.now().UnixMicro()}, &email, &pool)
	if errors.Is(err, sql.ErrNoRows) {
		return "", "", nil
	}
	return email, pool, s.explain("read a session from", err)
}

// A KnownSession is a session, for a family of models, and the account and pool of quota that it is with.
type KnownSession struct{ Session, Family, Email, Pool string }

// Known returns the sessions that are not forgotten yet, the latest first, and at most so many.
func (n *Sessions) Known(ctx context.Context, most int) ([]KnownSession, error) {
	var list []KnownSession
	err := n.store.each(ctx, selectSessions, []any{n.upstream, n.store.now().UnixMicro(), most}, func(rows *sql.Rows) error {
		var k KnownSession
		err := rows.Scan(&k.Session, &k.Family, &k.Email, &k.Pool)
		list = append(list, k)
		return err
	})
	return list, n.store.explain("read sessions from", err)
}

// ForgetSessions forgets which accounts all sessions are with.
func (n *Sessions) ForgetSessions(ctx context.Context) error {
	s := n.store
	if err := s.writable("forget sessions"); err != nil {
		return err
	}
	_, err := s.execute(ctx, forgetSessions, n.upstream)
	return s.explain("forget sessions in", err)
}
