package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"sync"
)

const (
	// The lock goes with the transaction, and the transaction with its connection: whoever is killed holds nothing. The
	// settings are for a machine that vanishes without closing its connections, and for a holder that hangs.
	leaseSettings = `SELECT set_config('tcp_keepalives_idle', '10', true), set_config('tcp_keepalives_interval', '5', true),
		set_config('tcp_keepalives_count', '3', true), set_config('idle_in_transaction_session_timeout', '120s', true)`
	leaseAccount = `SELECT pg_advisory_xact_lock(hashtextextended('perigee refresh ' || current_schema() || ' ' || $1 || ' ' || $2, 0))`
)

// lease holds a lock in a transaction, of a store that may write. Waiting for it ends with ctx; once it is there it does not, because ctx may be done
// before what the lock protects is stored.
func (p *postgres) lease(ctx context.Context, upstream, email string) (release func(), err error) {
	if p.leases == nil {
		return nil, nil
	}
	hold, drop := context.WithCancel(context.WithoutCancel(ctx))
	keep := context.AfterFunc(ctx, drop)
	defer keep()
	tx, err := p.leases.BeginTx(hold, nil)
	if err != nil {
		drop()
		return nil, cmp.Or(ctx.Err(), err)
	}
	release = sync.OnceFunc(func() {
		_ = tx.Rollback()
		drop()
	})
	err = lock(hold, tx, upstream, email)
	if err = cmp.Or(ctx.Err(), err); err != nil {
		release()
		return nil, err
	}
	return release, nil
}

func lock(ctx context.Context, tx *sql.Tx, upstream, email string) error {
	if _, err := tx.ExecContext(ctx, leaseSettings); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, leaseAccount, upstream, email)
	return err
}
