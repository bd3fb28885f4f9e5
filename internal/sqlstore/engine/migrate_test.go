package engine

import (
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"perigee"
	"perigee/internal/perigeetest/dbtest"
)

func TestMigrations(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) { testMigrations(t, Options{Path: filepath.Join(t.TempDir(), "perigee.db")}) })
	t.Run("postgres", func(t *testing.T) { testMigrations(t, Options{URL: perigee.NewSecret(dbtest.Postgres(t))}) })
}

func testMigrations(t *testing.T, opts Options) {
	// open applies the steps and says how many tables there are then.
	open := func(steps ...string) (tables int, err error) {
		t.Helper()
		files := fstest.MapFS{}
		for i, name := range []string{"0001_one.sql", "0002_two.sql"}[:len(steps)] {
			files[name] = &fstest.MapFile{Data: []byte(steps[i])}
		}
		opts.Migrations = files
		db, err := Open(t.Context(), opts)
		if err != nil {
			return 0, err
		}
		defer func() { _ = db.Close() }()
		tables, version, err := db.version(t.Context())
		if version != len(steps) {
			t.Errorf("the version is %d after %d steps", version, len(steps))
		}
		return tables, err
	}
	const one, two = "CREATE TABLE one (a TEXT)", "CREATE TABLE two (a TEXT); CREATE TABLE half (a TEXT)"
	if _, err := open(one, two+"; INSERT INTO nowhere VALUES (1)"); err == nil || !strings.Contains(err.Error(), "0002_two") {
		t.Fatalf("got %v, want an error that names the second step", err)
	}
	// The first step, and the table that counts them.
	if tables, err := open(one); tables != 2 || err != nil {
		t.Errorf("a step that broke left %d tables, %v", tables, err)
	}
	for range 2 {
		if tables, err := open(one, two); tables != 4 || err != nil {
			t.Errorf("there are %d tables, %v", tables, err)
		}
	}
	if _, err := open(one); perigee.AsError(err) == nil || perigee.AsError(err).Class != perigee.ClassUnavailable {
		t.Errorf("a database of a newer perigee was opened: %v", err)
	}
}

func TestMigrationFilesCountUp(t *testing.T) {
	for _, names := range [][]string{{"0002_b.sql"}, {"0001_a.sql", "0003_c.sql"}, {"0001_a.sql", "0001_b.sql"}, {"first.sql"}} {
		files := fstest.MapFS{}
		for _, name := range names {
			files[name] = &fstest.MapFile{}
		}
		if _, err := readMigrations(files); err == nil {
			t.Errorf("%v was accepted", names)
		}
	}
}
