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
type migration struct {
	name, sql string
	// compatible is the lowest version whose perigee may use the database after this step; 0: any may that could before it. A step
	// that only adds needs none.
	compatible int
}

// compatibleLine is the first line of a migration that older versions cannot use the database after: the lowest version that can.
const compatibleLine = "-- compatible_with: "

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
		step := migration{name: base, sql: string(text)}
		if line, found := strings.CutPrefix(step.sql, compatibleLine); found {
			line, _, _ = strings.Cut(line, "\n")
			if step.compatible, err = strconv.Atoi(strings.TrimSpace(line)); err != nil || step.compatible > version {
				return nil, fmt.Errorf("migration %s: want a version up to its own in %q", name, compatibleLine+line)
			}
		}
		steps = append(steps, step)
	}
	return steps, nil
}

const (
	createSchemaVersion = `CREATE TABLE IF NOT EXISTS schema_version (
		version         BIGINT NOT NULL PRIMARY KEY,
		name            TEXT   NOT NULL,
		applied_us      BIGINT NOT NULL,
		compatible_with BIGINT NOT NULL DEFAULT 0
	)`
	addCompatible    = `ALTER TABLE schema_version ADD COLUMN compatible_with BIGINT NOT NULL DEFAULT 0` // to a table of an older perigee
	selectVersion    = `SELECT coalesce(max(version), 0) FROM schema_version`
	selectCompatible = `SELECT coalesce(max(compatible_with), 0) FROM schema_version`
	insertVersion    = `INSERT INTO schema_version (version, name, applied_us, compatible_with) VALUES ($1, $2, $3, $4)`
)

type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func schemaVersion(ctx context.Context, db querier) (version int, err error) {
	err = db.QueryRowContext(ctx, selectVersion).Scan(&version)
	return version, err
}

// usable returns an error if the schema is newer than the known steps and says that a perigee which knows no more may not use it.
func (db *DB) usable(ctx context.Context, q querier, version, known int) error {
	if version <= known {
		return nil
	}
	lowest, has := 0, false
	err := q.QueryRowContext(ctx, db.hasCompatible).Scan(&has)
	if err == nil && has {
		err = q.QueryRowContext(ctx, selectCompatible).Scan(&lowest)
	}
	if err == nil && lowest > known {
		err = errNewer(version, known, lowest)
	}
	return err
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
	if err == nil {
		err = db.usable(ctx, tx, version, len(steps))
	}
	if err != nil || version >= len(steps) {
		return false, err
	}
	var has bool
	if err = tx.QueryRowContext(ctx, db.hasCompatible).Scan(&has); err == nil && !has {
		_, err = tx.ExecContext(ctx, addCompatible)
	}
	if err != nil {
		return false, err
	}
	step := steps[version]
	_, err = tx.ExecContext(ctx, step.sql)
	if err == nil {
		_, err = tx.ExecContext(ctx, insertVersion, version+1, step.name, now().UnixMicro(), step.compatible)
	}
	if err != nil {
		return false, fmt.Errorf("migration %s: %w", step.name, err)
	}
	return true, nil
}

func errNewer(version, known, lowest int) *perigee.Error {
	e := perigee.Errorf(perigee.ClassUnavailable,
		"a newer perigee has brought the database to schema version %d, which needs at least version %d; this perigee knows %d", version, lowest, known).
		WithHint("install that newer perigee, or restore the database from before it")
	e.Cause = ErrNewer
	return e
}
