package engine

import (
	"context"
	"errors"
	"fmt"
)

// Causes of errors about a database that cannot be used.
var (
	ErrOlder   = errors.New("the schema is older than this perigee")
	ErrNewer   = errors.New("the schema is newer than this perigee")
	ErrDamaged = errors.New("the file is damaged")
)

// CheckIntegrity reads each page of an SQLite file, which takes seconds for gigabytes, and does not
// block writers. Damage is an error with the cause ErrDamaged. PostgreSQL checks its own files.
func (db *DB) CheckIntegrity(ctx context.Context) (err error) {
	defer db.Explain("check", &err)
	if db.Shared {
		return nil
	}
	var found string
	if err := db.Read.QueryRowContext(ctx, `PRAGMA quick_check(1)`).Scan(&found); err != nil {
		return err
	}
	if found != "ok" {
		return fmt.Errorf("%w: %s", ErrDamaged, found)
	}
	return nil
}
