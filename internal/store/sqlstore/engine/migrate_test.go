package engine

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"perigee"
	"perigee/internal/testing/perigeetest/dbtest"
)

func TestMigrations(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) { testMigrations(t, Options{Path: filepath.Join(t.TempDir(), "perigee.db")}) })
	t.Run("postgres", func(t *testing.T) { testMigrations(t, Options{URL: perigee.NewSecret(dbtest.Postgres(t))}) })
}

func testMigrations(t *testing.T, opts Options) {
	opts.Now, opts.Logger = time.Now, slog.New(slog.DiscardHandler)
	newest := 0
	// open applies the steps and says how many tables there are then.
	open := func(steps ...string) (tables int, err error) {
		t.Helper()
		files := fstest.MapFS{}
		for i, name := range []string{"0001_one.sql", "0002_two.sql", "0003_three.sql"}[:len(steps)] {
			files[name] = &fstest.MapFile{Data: []byte(steps[i])}
		}
		opts.Migrations = files
		db, err := Open(t.Context(), opts)
		if err != nil {
			return 0, err
		}
		defer func() { _ = db.Close() }()
		tables, version, err := db.version(t.Context())
		if newest = max(newest, len(steps)); version != newest {
			t.Errorf("the version is %d after %d steps", version, newest)
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
	// A perigee that knows only the first step uses the database as it is.
	if tables, err := open(one); tables != 4 || err != nil {
		t.Errorf("there are %d tables, %v", tables, err)
	}
	// The third step says that the second is needed.
	const three = "-- compatible_with: 2\nCREATE TABLE three (a TEXT)"
	for range 2 {
		if tables, err := open(one, two, three); tables != 5 || err != nil {
			t.Errorf("there are %d tables, %v", tables, err)
		}
		if tables, err := open(one, two); tables != 5 || err != nil {
			t.Errorf("there are %d tables, %v", tables, err)
		}
		for _, readOnly := range []bool{false, true} {
			opts.ReadOnly = readOnly
			if _, err := open(one); !errors.Is(err, ErrNewer) || perigee.AsError(err).Class != perigee.ClassUnavailable {
				t.Errorf("a database that needs a newer perigee was opened: %v", err)
			}
		}
		opts.ReadOnly = false
	}
}

// A file is copied before it is migrated, once for each version, so that the previous perigee can
// go on with the copy.
func TestCopyBeforeMigration(t *testing.T) {
	path := filepath.Join(t.TempDir(), "perigee.db")
	open := func(path string, steps ...string) *DB {
		t.Helper()
		files := fstest.MapFS{}
		for i, text := range steps {
			files[fmt.Sprintf("%04d_step.sql", i+1)] = &fstest.MapFile{Data: []byte(text)}
		}
		db, err := Open(t.Context(), Options{Path: path, Migrations: files, Now: time.Now, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		return db
	}
	copies := func() []string {
		list, _ := filepath.Glob(path + ".before-*")
		return list
	}
	const one, two, three = "CREATE TABLE one (a TEXT)", "-- compatible_with: 2\nALTER TABLE one ADD COLUMN b TEXT", "CREATE TABLE three (a TEXT)"
	db := open(path, one)
	if _, err := db.Write.Exec("INSERT INTO one VALUES ('kept')"); err != nil {
		t.Fatal(err)
	}
	_ = db.Close()
	if list := copies(); len(list) != 0 {
		t.Errorf("a new database has the copies %v", list)
	}
	mine, killed := path+".before-my-experiment", path+".before-2.1137618763"
	for _, name := range []string{mine, killed, killed + "-journal"} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		_ = open(path, one, two).Close()
	}
	if err := os.Remove(mine); err != nil {
		t.Errorf("a copy of the user: %v", err)
	}
	if list := copies(); len(list) != 1 || list[0] != CopyName(path, 2) {
		t.Fatalf("copies %v", list)
	}
	if info, err := os.Stat(CopyName(path, 2)); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	old := open(CopyName(path, 2), one)
	var kept string
	if err := old.Read.QueryRow("SELECT a FROM one").Scan(&kept); err != nil || kept != "kept" {
		t.Errorf("the copy has %q, %v", kept, err)
	}
	_ = old.Close()
	// Version 2 excludes version 1, so the copy of that stays.
	_ = open(path, one, two, three).Close()
	if list := copies(); len(list) != 2 || list[0] != CopyName(path, 2) || list[1] != CopyName(path, 3) {
		t.Errorf("copies %v", list)
	}
}

// Before a step after which the previous perigee cannot use the database, the copy is required: if
// it cannot be made, the database stays as it is. A step that only adds is done without. Commands,
// beside which an older daemon may be running, make only steps that add.
func TestRequiredCopy(t *testing.T) {
	path, additive := filepath.Join(t.TempDir(), "perigee.db"), true
	open := func(steps ...string) (tables, version int, err error) {
		t.Helper()
		files := fstest.MapFS{}
		for i, text := range steps {
			files[fmt.Sprintf("%04d_step.sql", i+1)] = &fstest.MapFile{Data: []byte(text)}
		}
		db, err := Open(t.Context(), Options{Path: path, Additive: additive, Migrations: files, Now: time.Now, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			return 0, 0, err
		}
		defer func() { _ = db.Close() }()
		return db.version(t.Context())
	}
	const one, adds, three = "CREATE TABLE one (a TEXT)", "CREATE TABLE two (a TEXT)", "-- compatible_with: 3\nDROP TABLE two"
	if _, _, err := open(one); err != nil {
		t.Fatal(err)
	}
	for _, version := range []int{2, 3} { // a directory is where the copy would be
		if err := os.MkdirAll(filepath.Join(CopyName(path, version), "in the way"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if tables, version, err := open(one, adds); tables != 3 || version != 2 || err != nil {
		t.Errorf("a step that adds: %d tables, version %d, %v", tables, version, err)
	}
	additive = true
	if _, _, err := open(one, adds, three); !errors.Is(err, ErrOlder) || !strings.Contains(err.Error(), "perigee serve --replace") {
		t.Errorf("beside a daemon of an older version: %v", err)
	}
	additive = false
	_, _, err := open(one, adds, three)
	if e := perigee.AsError(err); e == nil || e.Class != perigee.ClassUnavailable || !strings.Contains(e.Hint, "as it was") {
		t.Errorf("without a copy: %v", err)
	}
	if tables, version, err := open(one, adds); tables != 3 || version != 2 || err != nil {
		t.Errorf("after the refusal: %d tables, version %d, %v", tables, version, err)
	}
	if left, _ := filepath.Glob(path + ".before-*.*"); len(left) != 0 {
		t.Errorf("a copy that failed has left %q", left)
	}
	if err := os.RemoveAll(CopyName(path, 3)); err != nil {
		t.Fatal(err)
	}
	if tables, version, err := open(one, adds, three); tables != 2 || version != 3 || err != nil {
		t.Errorf("with a copy: %d tables, version %d, %v", tables, version, err)
	}
	if info, err := os.Stat(CopyName(path, 3)); err != nil || !info.Mode().IsRegular() {
		t.Errorf("the copy: %v", err)
	}
}

func TestMigrationFilesCountUp(t *testing.T) {
	for _, names := range [][]string{{}, {"0000_a.sql"}, {"0001_a.sql", "0003_c.sql"}, {"0001_a.sql", "0001_b.sql"}, {"first.sql"}} {
		files := fstest.MapFS{}
		for _, name := range names {
			files[name] = &fstest.MapFile{}
		}
		if _, err := readMigrations(files); err == nil {
			t.Errorf("%v was accepted", names)
		}
	}
}
