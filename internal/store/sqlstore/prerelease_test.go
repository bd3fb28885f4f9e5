package sqlstore

import (
	"database/sql"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/store/sqlstore/engine"
)

// schema14 makes a database of schema version 14 with a few rows, from the statements of the
// migrations that made it, and returns its options.
func schema14(t *testing.T, fresh fresh) Options {
	t.Helper()
	options := fresh(t)
	if options.Path != "" { // it has the newest version
		if err := os.Remove(options.Path); err != nil {
			t.Fatal(err)
		}
	}
	statements, err := os.ReadFile("testdata/schema14.sql")
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := boundSealer{}.Seal(perigee.NewSecret("token"), owner("u", "a@example.com")...)
	if err != nil {
		t.Fatal(err)
	}
	db := openSQL(t, options)
	defer func() { _ = db.Close() }()
	if _, err := db.ExecContext(t.Context(), strings.Replace(string(statements), "SEALED", sealed, 1)); err != nil {
		t.Fatal(err)
	}
	return options
}

// openSQL opens a database without a store.
func openSQL(t *testing.T, options Options) *sql.DB {
	t.Helper()
	driver, source := "sqlite", options.Path
	if source == "" {
		driver, source = "pgx", options.URL.Reveal()
	}
	db, err := sql.Open(driver, source)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// A database of schema version 14 is brought to the schema of a new one, with its rows.
func TestPrereleaseDatabaseIsAdopted(t *testing.T) {
	onEngines(t, func(t *testing.T, fresh fresh) {
		options := schema14(t, fresh)
		readOnly := options
		readOnly.ReadOnly = true
		if _, err := Open(t.Context(), readOnly); perigee.AsError(err).Cause != ErrOlder {
			t.Errorf("read-only: %v", err)
		}
		for range 2 {
			s, err := Open(t.Context(), options)
			if err != nil {
				t.Fatal(err)
			}
			if calls := mustCalls(t, s, perigee.CallQuery{}); len(calls) != 1 || calls[0].ClientStatus != 200 {
				t.Errorf("calls %+v", calls)
			}
			if rows := mustUsage(t, s, perigee.UsageQuery{}); len(rows) != 1 || rows[0].InputTokens != 10 {
				t.Errorf("usage %+v", rows)
			}
			list := mustSignIns(t, s.Accounts(boundSealer{}), "u")
			if len(list) != 1 || list[0].Refresh.Reveal() != "token" || !list[0].Preferred {
				t.Errorf("accounts %+v", list)
			}
			mustClose(t, s)
		}
		adopted, made := schemaOf(t, openWith(t, options)), schemaOf(t, openWith(t, fresh(t)))
		if len(made) < 100 || !slices.Equal(adopted, made) {
			t.Errorf("the schemas differ:\n%s\n\nand\n%s", strings.Join(adopted, "\n"), strings.Join(made, "\n"))
		}
		if options.Path != "" {
			if _, err := os.Stat(engine.CopyName(options.Path, 15)); err != nil {
				t.Errorf("the copy: %v", err)
			}
		}
	})
}

// A database of a schema before version 14 is refused unchanged, with a next step.
func TestOlderPrereleaseDatabasesAreRefused(t *testing.T) {
	onEngines(t, func(t *testing.T, fresh fresh) {
		for _, version := range []int{1, 13} {
			options := schema14(t, fresh)
			db := openSQL(t, options)
			if _, err := db.Exec(`DELETE FROM schema_version WHERE version > $1`, version); err != nil {
				t.Fatal(err)
			}
			for _, options.ReadOnly = range []bool{true, false} {
				_, err := Open(t.Context(), options)
				e := wantClass(t, err, perigee.ClassInvalid)
				if !strings.Contains(e.Message, fmt.Sprintf("schema version %d ", version)) || e.Hint == "" {
					t.Errorf("got %q, next %q", e.Message, e.Hint)
				}
			}
			var rows int
			if err := db.QueryRow(`SELECT count(*) FROM schema_version`).Scan(&rows); err != nil || rows != version {
				t.Errorf("%d versions are left, %v", rows, err)
			}
			_ = db.Close()
		}
	})
}

// schemaOf lists the columns, indexes and constraints of all tables.
func schemaOf(t *testing.T, s *Store) (list []string) {
	t.Helper()
	queries := []string{
		`SELECT m.name || ' ' || c.cid || ' ' || c.name || ' ' || c.type || ' ' || c."notnull" || ' ' || coalesce(c.dflt_value, '-') || ' ' || c.pk
			FROM sqlite_schema AS m JOIN pragma_table_info(m.name) AS c WHERE m.type = 'table'`,
		`SELECT name || ' ' || tbl_name || ' ' || coalesce(sql, '-') FROM sqlite_schema WHERE type = 'index'`,
		`SELECT m.name || ' ' || f."table" || ' ' || f."from" || ' ' || f."to" || ' ' || f.on_delete
			FROM sqlite_schema AS m JOIN pragma_foreign_key_list(m.name) AS f WHERE m.type = 'table'`,
	}
	if s.Shared() {
		queries = []string{
			`SELECT concat_ws(' ', table_name, ordinal_position, column_name, data_type, is_nullable, column_default)
				FROM information_schema.columns WHERE table_schema = current_schema()`,
			`SELECT replace(indexdef, current_schema(), '') FROM pg_indexes WHERE schemaname = current_schema()`,
			`SELECT replace(conname || ' ' || pg_get_constraintdef(oid), current_schema(), '') FROM pg_constraint
				WHERE connamespace = CAST(current_schema() AS regnamespace)`,
		}
	}
	for _, query := range queries {
		found, err := engine.List(t.Context(), s.db, query, nil, func(line *string) []any { return []any{line} })
		if err != nil || len(found) == 0 {
			t.Fatalf("%d rows, %v", len(found), err)
		}
		list = append(list, found...)
	}
	slices.Sort(list)
	return list
}
