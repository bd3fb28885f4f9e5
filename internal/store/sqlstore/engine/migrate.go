package engine

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"perigee"
)

// A migration is one numbered step of the schema.
type migration struct {
	version   int // the version of the schema after this step
	name, sql string
	// compatible is the lowest version of a perigee that may use the database after this step; 0 if
	// this step does not change that. A step that only adds tables, columns and indexes needs none.
	compatible int
}

// compatibleLine is the first line of a migration after which older versions cannot use the
// database. The lowest version that can follows it.
const compatibleLine = "-- compatible_with: "

// readMigrations reads files called 0015_name.sql. The first one creates the whole schema and may
// have any number. The numbers of later files follow it without a gap.
func readMigrations(files fs.FS) ([]migration, error) {
	names, err := fs.Glob(files, "*.sql") // sorted by name
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, errors.New("there are no migrations")
	}
	var steps []migration
	for i, name := range names {
		base := strings.TrimSuffix(name, ".sql")
		number, _, _ := strings.Cut(base, "_")
		version, err := strconv.Atoi(number)
		if err != nil || version < 1 || i > 0 && version != steps[i-1].version+1 {
			return nil, fmt.Errorf("migration %s: its number does not follow the one before", name)
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		step := migration{version: version, name: base, sql: string(text)}
		if line, found := strings.CutPrefix(step.sql, compatibleLine); found {
			line, _, _ = strings.Cut(line, "\n")
			step.compatible, err = strconv.Atoi(strings.TrimSpace(line))
			if err != nil || step.compatible > version {
				return nil, fmt.Errorf("migration %s: want a version up to its own in %q", name, compatibleLine+line)
			}
		}
		steps = append(steps, step)
	}
	return steps, nil
}

// lastVersion returns the version of the schema after all steps.
func lastVersion(steps []migration) int { return steps[len(steps)-1].version }

// ruledOut reports whether a perigee that knows a version of the schema cannot use it any more after
// the steps that follow.
func ruledOut(version int, steps []migration) bool {
	return slices.ContainsFunc(steps, func(m migration) bool { return m.version > version && m.compatible > version })
}

const (
	createSchemaVersion = `CREATE TABLE IF NOT EXISTS schema_version (
		version         BIGINT NOT NULL PRIMARY KEY,
		name            TEXT   NOT NULL,
		applied_us      BIGINT NOT NULL,
		compatible_with BIGINT NOT NULL DEFAULT 0
	)`
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

// checkSchema returns an error if a perigee with these steps cannot use a schema of this version:
// the schema records that it needs a newer perigee, or it is older than the first step.
func (db *DB) checkSchema(ctx context.Context, q querier, version int, steps []migration) error {
	if version > 0 && version < steps[0].version && !fromPrerelease(version, steps) {
		return perigee.Errorf(perigee.ClassInvalid,
			"%s has schema version %d of a pre-release perigee, and this perigee needs at least version %d",
			db.Name, version, steps[0].version).WithHint("%s, and sign in again", db.elsewhere)
	}
	if version <= lastVersion(steps) {
		return nil
	}
	lowest := 0
	err := q.QueryRowContext(ctx, selectCompatible).Scan(&lowest)
	if err == nil && lowest > lastVersion(steps) {
		err = errNewer(version, lastVersion(steps), lowest)
	}
	return err
}

// upgrade applies the steps that a database of a version does not have yet and returns how many there
// were. A database that has a backUp is copied before that, unless it is new. One process at a time
// does both, and reads the version again when it is the one: another process may have applied the
// steps meanwhile, and a copy of that database would be of no use to the previous perigee.
func (db *DB) upgrade(ctx context.Context, version int, steps []migration, opts Options) (applied int, err error) {
	if known := lastVersion(steps); db.backUp != nil && version > 0 && version < known {
		unlock, err := db.lockUpgrade(ctx)
		if err != nil {
			return 0, err
		}
		defer unlock()
		if _, version, err = db.version(ctx); err == nil && version < known {
			err = db.backUp(ctx, version, ruledOut(version, steps), opts.Logger)
		}
		if err != nil {
			return 0, err
		}
	}
	return db.migrate(ctx, steps, opts.Now)
}

// migrate applies the steps that the database does not have yet and returns how many there were.
// Each is one transaction together with its number, so a step is applied whole or not at all.
func (db *DB) migrate(ctx context.Context, steps []migration, now func() time.Time) (applied int, err error) {
	for version := 0; version < lastVersion(steps); {
		err := inTransaction(ctx, db.Write, func(tx *sql.Tx) (err error) {
			one := 0
			version, one, err = db.migrateOne(ctx, tx, steps, now)
			applied += one
			return err
		})
		if err != nil {
			return applied, err
		}
	}
	return applied, nil
}

// migrateOne applies the next step, if there is one, and returns the version of the schema then and
// the number of steps. It looks at the version inside the transaction, because another process may
// be starting on the same database at this moment.
func (db *DB) migrateOne(ctx context.Context, tx *sql.Tx, steps []migration, now func() time.Time) (version, applied int, err error) {
	for _, statement := range []string{db.lockSchema, createSchemaVersion} {
		if statement == "" {
			continue
		}
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return 0, 0, err
		}
	}
	version, err = schemaVersion(ctx, tx)
	if err == nil {
		err = db.checkSchema(ctx, tx, version, steps)
	}
	if err != nil || version >= lastVersion(steps) {
		return version, 0, err
	}
	step := nextStep(version, steps)
	_, err = tx.ExecContext(ctx, step.sql)
	if err == nil {
		_, err = tx.ExecContext(ctx, insertVersion, step.version, step.name, now().UnixMicro(), step.compatible)
	}
	if err != nil {
		return version, 0, fmt.Errorf("migration %s: %w", step.name, err)
	}
	return step.version, 1, nil
}

// nextStep returns the step for a usable database with a version below the newest; version is 0 if
// it is empty.
func nextStep(version int, steps []migration) migration {
	switch {
	case version == 0:
		return steps[0]
	case fromPrerelease(version, steps):
		return prereleaseStep(steps[0])
	}
	return steps[version-steps[0].version+1]
}

func errNewer(version, known, lowest int) *perigee.Error {
	e := perigee.Errorf(perigee.ClassUnavailable,
		"a newer perigee has brought the database to schema version %d, which needs at least version %d; this perigee knows %d", version, lowest, known).
		WithHint("install that newer perigee, or restore the database from before it")
	e.Cause = ErrNewer
	return e
}
