package sqlstore

import (
	"context"
	"database/sql"
	"errors"

	"perigee"
)

// write runs change in a transaction that has reached the disk when it returns: a provider may already have forgotten
// the token that the new one replaces, so a power cut must not bring the old one back.
func (a *Accounts) write(ctx context.Context, doing string, change func(ctx context.Context, tx *sql.Tx) error) error {
	if err := a.store.writable(doing + " " + a.store.engine.name()); err != nil {
		return err
	}
	err := a.store.bounded(ctx, func(ctx context.Context) error {
		return a.store.engine.durably(ctx, a.store.write, func(tx *sql.Tx) error { return change(ctx, tx) })
	})
	if errors.Is(err, perigee.ErrAccountChanged) {
		return err
	}
	return a.store.explain(doing, err)
}
