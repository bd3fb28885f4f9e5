package sqlstore

import (
	"context"
	"database/sql"
	"sync"

	"perigee"
)

var _ perigee.RefreshLeaser = (*Accounts)(nil)

const (
	// The lock goes with the transaction, and the transaction with its connection: whoever is killed holds nothing. The
	// settings are for a machine that vanishes without closing its connections, and for a holder that hangs.
	leaseSettings = `SELECT set_config('tcp_keepalives_idle', '10', true), set_config('tcp_keepalives_interval', '5', true),
		set_config('tcp_keepalives_count', '3', true), set_config('idle_in_transaction_session_timeout', '120s', true)`
	leaseAccount = `SELECT pg_advisory_xact_lock(hashtextextended('perigee refresh ' || current_schema() || ' ' || $1 || ' ' || $2, 0))`
)

// LeaseRefresh waits until no other replica refreshes an account, and keeps them from it until release is called. A
// holder that is killed holds nothing any more. Where the database has no replicas release is nil.
func (a *Accounts) LeaseRefresh(ctx context.Context, upstream, email string) (release func(), err error) {
	p, ok := a.store.engine.(*postgres)
	if !ok || p.leases == nil {
		return nil, nil
	}
	email = fold(email)
	release, err = p.lease(ctx, upstream, email)
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		if release != nil {
			release()
		}
		return nil, a.store.explain("wait for the turn to refresh "+email+" in", err)
	}
	return release, nil
}

// lease holds a lock in a transaction. Waiting for it ends with ctx; once it is there it does not, because ctx may be done
// before what the lock protects is stored.
func (p *postgres) lease(ctx context.Context, upstream, email string) (release func(), err error) {
	hold, drop := context.WithCancel(context.WithoutCancel(ctx))
	keep := context.AfterFunc(ctx, drop)
	defer keep()
	tx, err := p.leases.BeginTx(hold, nil)
	if err != nil {
		drop()
		return nil, err
	}
	release = sync.OnceFunc(func() {
		_ = tx.Rollback()
		drop()
	})
	return release, lock(hold, tx, upstream, email)
}

func lock(ctx context.Context, tx *sql.Tx, upstream, email string) error {
	if _, err := tx.ExecContext(ctx, leaseSettings); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, leaseAccount, upstream, email)
	return err
}
