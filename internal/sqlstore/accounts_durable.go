package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"

	"perigee"
)

// write runs change in a transaction that has reached the disk when it returns: a provider may already have forgotten
// the token that the new one replaces, so a power cut must not bring the old one back.
func (a *Accounts) write(ctx context.Context, doing string, change func(tx *sql.Tx) error) error {
	if a.store.write == nil {
		return perigee.Errorf(perigee.ClassInternal, "%s %s: the database was opened read-only", doing, a.store.path)
	}
	err := a.store.durably(ctx, change)
	if errors.Is(err, perigee.ErrAccountChanged) {
		return err
	}
	return a.store.explain(doing, err)
}

// The writing connection otherwise leaves it to checkpoints to sync the log: enough for calls, and faster.
const (
	syncAtCommit     = `PRAGMA synchronous = FULL`
	syncAtCheckpoint = `PRAGMA synchronous = NORMAL`
)

// durably runs change in a transaction whose commit syncs the log. The setting cannot change inside a transaction, hence
// the connection that is held around it.
func (s *Store) durably(ctx context.Context, change func(tx *sql.Tx) error) error {
	conn, err := s.write.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.ExecContext(ctx, syncAtCommit); err != nil {
		return err
	}
	defer func() {
		if _, err := conn.ExecContext(context.WithoutCancel(ctx), syncAtCheckpoint); err != nil {
			_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // the next one has its own settings
		}
	}()
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after the commit
	if err := change(tx); err != nil {
		return err
	}
	return tx.Commit()
}
