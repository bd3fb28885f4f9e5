package sqlstore

import (
	"database/sql"
	"strings"
	"testing"
	"testing/fstest"

	"perigee"
)

func TestMigrations(t *testing.T) { onEngines(t, testMigrations) }

func testMigrations(t *testing.T, fresh fresh) {
	db, e := bare(t, fresh(t))
	steps := []migration{
		{1, "0001_one", "CREATE TABLE one (a TEXT)"},
		{2, "0002_two", "CREATE TABLE two (a TEXT); CREATE TABLE half (a TEXT); INSERT INTO nowhere VALUES (1)"},
	}
	if n, err := migrate(t.Context(), db, e, steps, atNoon); err == nil || n != 1 || !strings.Contains(err.Error(), "0002_two") {
		t.Fatalf("got %d, %v, want one step and then an error that names the second", n, err)
	}
	// The first step, and the table that counts them.
	if all, ours, err := e.tables(t.Context(), db); all != 2 || !ours || err != nil {
		t.Errorf("a step that broke left %d tables, %v, %v", all, ours, err)
	}
	steps[1].sql = "CREATE TABLE two (a TEXT); CREATE TABLE half (a TEXT)"
	for _, want := range []int{1, 0} {
		if n, err := migrate(t.Context(), db, e, steps, atNoon); err != nil || n != want {
			t.Errorf("got %d, %v, want %d", n, err, want)
		}
	}
	if all, _, err := e.tables(t.Context(), db); all != 4 || err != nil {
		t.Errorf("there are %d tables, %v", all, err)
	}
	_, err := migrate(t.Context(), db, e, steps[:1], atNoon)
	wantClass(t, err, perigee.ClassUnavailable)
}

// bare is a way to a database that goes past the store.
func bare(t *testing.T, options Options) (*sql.DB, engine) {
	t.Helper()
	e, err := chooseEngine(options)
	if err != nil {
		t.Fatal(err)
	}
	reader, err := e.openReader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	db, err := e.openWriter(reader)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _, _ = reader.Close(), db.Close(), e.close() })
	return db, e
}

// atVersion makes a database as an older perigee left it, and returns a way to it.
func atVersion(t *testing.T, options Options, version int) *sql.DB {
	t.Helper()
	db, e := bare(t, options)
	steps, err := embeddedMigrations()
	if err != nil {
		t.Fatal(err)
	}
	if n, err := migrate(t.Context(), db, e, steps[:version], atNoon); err != nil || n != version {
		t.Fatalf("%d steps, %v", n, err)
	}
	return db
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
