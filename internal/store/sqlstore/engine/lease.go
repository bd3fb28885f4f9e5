package engine

import (
	"cmp"
	"context"
	"sync"
)

const (
	// The lock goes with the transaction, and the transaction with its connection: a killed process
	// holds nothing. The settings are for a machine that vanishes without closing its connections,
	// and for a holder that hangs.
	leaseSettings = `SELECT set_config('tcp_keepalives_idle', '10', true), set_config('tcp_keepalives_interval', '5', true),
		set_config('tcp_keepalives_count', '3', true), set_config('idle_in_transaction_session_timeout', '120s', true)`
	leaseAccount = `SELECT pg_advisory_xact_lock(
		hashtextextended('perigee refresh ' || current_schema() || ' ' || $1 || ' ' || $2, 0))`
)

// Lease waits until an account is not being refreshed, here or in another process, and holds the
// lease until release is called. release is nil if the database may not be written to. Waiting ends
// with ctx; a lease that is held does not, because ctx may be done before the data that the lock
// protects is stored.
func (db *DB) Lease(ctx context.Context, upstream, email string) (release func(), err error) {
	switch {
	case db.Write == nil:
		return nil, nil
	case db.leases == nil:
		return db.leaseHere(ctx, upstream, email)
	}
	hold, drop := context.WithCancel(context.WithoutCancel(ctx))
	keep := context.AfterFunc(ctx, drop)
	defer keep()
	tx, err := db.leases.BeginTx(hold, nil)
	if err != nil {
		drop()
		return nil, cmp.Or(ctx.Err(), err)
	}
	release = sync.OnceFunc(func() {
		_ = tx.Rollback()
		drop()
	})
	if _, err = tx.ExecContext(hold, leaseSettings); err == nil {
		_, err = tx.ExecContext(hold, leaseAccount, upstream, email)
	}
	if err = cmp.Or(ctx.Err(), err); err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// leaseHere is for this process, the only one: after a reload, the upstream that was replaced and
// the new one may refresh the same account.
func (db *DB) leaseHere(ctx context.Context, upstream, email string) (release func(), err error) {
	place, _ := db.refreshing.LoadOrStore([2]string{upstream, email}, make(chan struct{}, 1))
	turn := place.(chan struct{})
	select {
	case turn <- struct{}{}:
		return sync.OnceFunc(func() { <-turn }), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
