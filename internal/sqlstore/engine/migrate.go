package engine

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"perigee"
)

// A migration is one numbered step of the schema.
type migration struct{ name, sql string }

// readMigrations reads files called 0001_name.sql. They must count up from 1 without a gap: a missing
// number is a file that was lost.
func readMigrations(files fs.FS) ([]migration, error) {
	names, err := fs.Glob(files, "*.sql") // sorted by name
	if err != nil {
		return nil, err
	}
	var steps []migration
	for i, name := range names {
		base := strings.TrimSuffix(name, ".sql")
		number, _, _ := strings.Cut(base, "_")
		version, err := strconv.Atoi(number)
		if err != nil || version != i+1 {
			return nil, fmt.Errorf("migration %s: want number %04d", name, i+1)
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		steps = append(steps, migration{base, string(text)})
	}
	return steps, nil
}

const (
	createSchemaVersion = `CREATE TABLE IF NOT EXISTS schema_version (
		version    BIGINT NOT NULL PRIMARY KEY,
		name       TEXT   NOT NULL,
		applied_us BIGINT NOT NULL
	)`
	selectVersion = `SELECT coalesce(max(version), 0) FROM schema_version`
	insertVersion = `INSERT INTO schema_version (version, name, applied_us) VALUES ($1, $2, $3)`
)

type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func schemaVersion(ctx context.Context, db querier) (version int, err error) {
	err = db.QueryRowContext(ctx, selectVersion).Scan(&version)
	return version, err
}

// migrate applies the steps that the database does not have yet and returns how many there were. Each is
// one transaction together with its number, so a step is there whole or not at all.
func (db *DB) migrate(ctx context.Context, steps []migration, now func() time.Time) (applied int, err error) {
	for more := true; more; {
		err := inTransaction(ctx, db.Write, func(tx *sql.Tx) (err error) {
			more, err = db.migrateOne(ctx, tx, steps, now)
			return err
		})
		if err != nil {
			return applied, err
		}
		if more {
			applied++
		}
	}
	return applied, nil
}

// migrateOne applies the next step, if there is one. It looks at the version inside the transaction, because another
// process may be starting on the same database at this moment.
func (db *DB) migrateOne(ctx context.Context, tx *sql.Tx, steps []migration, now func() time.Time) (applied bool, err error) {
	for _, statement := range []string{db.lockSchema, createSchemaVersion} {
		if statement == "" {
			continue
		}
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return false, err
		}
	}
	version, err := schemaVersion(ctx, tx)
	if err != nil || version == len(steps) {
		return false, err
	}
	if version > len(steps) {
		return false, errNewer(version, len(steps))
	}
	step := steps[version]
	_, err = tx.ExecContext(ctx, step.sql)
	if err == nil {
		_, err = tx.ExecContext(ctx, insertVersion, version+1, step.name, now().UnixMicro())
	}
	if err != nil {
		return false, fmt.Errorf("migration %s: %w", step.name, err)
	}
	return true, nil
}

func errNewer(version, known int) *perigee.Error {
	e := perigee.Errorf(perigee.ClassUnavailable,
		"the database is at schema version %d and this perigee knows only %d: a newer one has used it", version, known).
		WithHint("install that newer perigee, or choose another data_dir or store.url")
	e.Cause = ErrNewer
	return e
}
