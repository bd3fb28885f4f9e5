package sqlstore

import (
	"database/sql"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"perigee"
)

func TestMigrations(t *testing.T) {
	db, err := openPool(filepath.Join(t.TempDir(), "perigee.db"), writing, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	now := func() time.Time { return noon }
	steps := []migration{
		{1, "0001_one", "CREATE TABLE one (a TEXT)"},
		{2, "0002_two", "CREATE TABLE two (a TEXT); CREATE TABLE half (a TEXT); INSERT INTO nowhere VALUES (1)"},
	}
	if n, err := migrate(t.Context(), db, steps, now); err == nil || n != 1 || !strings.Contains(err.Error(), "0002_two") {
		t.Fatalf("got %d, %v, want one step and then an error that names the second", n, err)
	}
	if got := tables(t, db); !slices.Equal(got, []string{"one", "schema_version"}) {
		t.Errorf("a step that broke left %v", got)
	}
	steps[1].sql = "CREATE TABLE two (a TEXT); CREATE TABLE half (a TEXT)"
	for _, want := range []int{1, 0} {
		if n, err := migrate(t.Context(), db, steps, now); err != nil || n != want {
			t.Errorf("got %d, %v, want %d", n, err, want)
		}
	}
	if got := tables(t, db); !slices.Equal(got, []string{"half", "one", "schema_version", "two"}) {
		t.Errorf("got %v", got)
	}
	_, err = migrate(t.Context(), db, steps[:1], now)
	wantClass(t, err, perigee.ClassUnavailable)
}

func tables(t *testing.T, db *sql.DB) (names []string) {
	t.Helper()
	rows, err := db.Query("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	return names
}

func TestMigrationFilesCountUp(t *testing.T) {
	steps, err := embeddedMigrations()
	if err != nil || len(steps) == 0 {
		t.Fatalf("got %d, %v", len(steps), err)
	}
	for _, names := range [][]string{{"0002_b.sql"}, {"0001_a.sql", "0003_c.sql"}, {"0001_a.sql", "0001_b.sql"}, {"first.sql"}} {
		files := fstest.MapFS{}
		for _, name := range names {
			files["m/"+name] = &fstest.MapFile{}
		}
		if _, err := readMigrations(files, "m"); err == nil {
			t.Errorf("%v was accepted", names)
		}
	}
}
