package sqlstore

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"

	"perigee"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// A migration is one numbered step of the schema.
type migration struct {
	version int
	name    string
	sql     string
}

func embeddedMigrations() ([]migration, error) { return readMigrations(migrationFiles, "migrations") }

// readMigrations reads files called 0001_name.sql. They must count up from 1 without a gap: a missing
// number is a file that was lost, and applying the rest would build on sand.
func readMigrations(files fs.FS, dir string) ([]migration, error) {
	names, err := fs.Glob(files, path.Join(dir, "*.sql")) // sorted by name
	if err != nil {
		return nil, err
	}
	var steps []migration
	for i, name := range names {
		base := strings.TrimSuffix(path.Base(name), ".sql")
		number, _, _ := strings.Cut(base, "_")
		version, err := strconv.Atoi(number)
		if err != nil || version != i+1 {
			return nil, fmt.Errorf("migration %s: want number %04d", name, i+1)
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		steps = append(steps, migration{version: version, name: base, sql: string(text)})
	}
	return steps, nil
}

func latest(steps []migration) int {
	if len(steps) == 0 {
		return 0
	}
	return steps[len(steps)-1].version
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

// versionIfAny is the version of the schema; 0 when there is none.
func versionIfAny(ctx context.Context, db *sql.DB, e engine) (int, error) {
	_, ours, err := e.tables(ctx, db)
	if err != nil || !ours {
		return 0, err
	}
	return schemaVersion(ctx, db)
}

// migrate applies the steps that the database does not have yet and returns how many there were. Each is
// one transaction together with its number, so a step is there whole or not at all.
func migrate(ctx context.Context, db *sql.DB, e engine, steps []migration, now func() time.Time) (applied int, err error) {
	for {
		more, err := migrateOne(ctx, db, e, steps, now)
		if err != nil || !more {
			return applied, err
		}
		applied++
	}
}

// migrateOne applies the next step. It looks at the version inside the transaction, because another
// process may be starting on the same database at this moment.
func migrateOne(ctx context.Context, db *sql.DB, e engine, steps []migration, now func() time.Time) (applied bool, err error) {
	err = inTransaction(ctx, db, func(tx *sql.Tx) error {
		if err := e.alone(ctx, tx); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, createSchemaVersion); err != nil {
			return err
		}
		version, err := schemaVersion(ctx, tx)
		if err != nil {
			return err
		}
		if version > latest(steps) {
			return errNewer(version, latest(steps))
		}
		if version == latest(steps) {
			return nil
		}
		step := steps[version]
		if _, err := tx.ExecContext(ctx, step.sql); err != nil {
			return fmt.Errorf("migration %s: %w", step.name, err)
		}
		if _, err := tx.ExecContext(ctx, insertVersion, step.version, step.name, now().UnixMicro()); err != nil {
			return fmt.Errorf("migration %s: %w", step.name, err)
		}
		applied = true
		return nil
	})
	return applied && err == nil, err
}

func errNewer(version, known int) *perigee.Error {
	return perigee.Errorf(perigee.ClassUnavailable,
		"the database is at schema version %d and this perigee knows only %d: a newer one has used it", version, known).
		WithNext("install that newer perigee, or choose another data_dir or store.url")
}
