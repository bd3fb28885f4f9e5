package sqlstore

import (
	"context"
	"database/sql"

	"perigee"
)

const (
	// First the mark is taken from whoever has it: the index allows no second one, not even for a moment.
	unmarkOthers = `UPDATE accounts SET preferred = FALSE WHERE upstream = $1 AND email <> $2 AND preferred`
	markAccount  = `UPDATE accounts SET preferred = TRUE WHERE upstream = $1 AND email = $2`
)

// PreferSignIn makes an account the preferred one of its upstream, in place of the one before. When it is not there it changes
// nothing and returns perigee.ErrAccountChanged. The mark is not part of what generations are about: who refreshes the account
// meanwhile is not disturbed.
func (a *Accounts) PreferSignIn(ctx context.Context, upstream, email string) error {
	email = fold(email)
	return a.write(ctx, "prefer account "+email+" in", func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, countChange); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, unmarkOthers, upstream, email); err != nil {
			return err
		}
		result, err := tx.ExecContext(ctx, markAccount, upstream, email)
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); err != nil {
			return err
		} else if n == 0 {
			return perigee.ErrAccountChanged
		}
		return nil
	})
}
