package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/fstest"
	"time"

	"perigee/internal/lib/atomicfile"
	"perigee/internal/testing/perigeetest/await"
)

// upgradeTo opens a database with steps, the first of which has the number 1, and closes it.
func upgradeTo(t *testing.T, path string, steps ...string) error {
	t.Helper()
	files := fstest.MapFS{}
	for i, text := range steps {
		files[fmt.Sprintf("%04d_step.sql", i+1)] = &fstest.MapFile{Data: []byte(text)}
	}
	db, err := Open(t.Context(), Options{Path: path, Migrations: files, Now: time.Now, Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		err = db.Close()
	}
	return err
}

// wantCopies compares the copies of a database, and the schema version of each, which is the one
// before the version in its name.
func wantCopies(t *testing.T, path string, versions ...int) {
	t.Helper()
	var names []string
	for _, version := range versions {
		name := CopyName(path, version)
		names = append(names, name)
		if got, err := versionOf(t, name); got != version-1 || err != nil {
			t.Errorf("%s has schema version %d, %v", name, got, err)
		}
	}
	if got := Copies(path); !slices.Equal(got, names) {
		t.Errorf("copies %q, want %q", got, names)
	}
}

func versionOf(t *testing.T, path string) (int, error) {
	t.Helper()
	pool, err := openPool(path, existing, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = pool.Close() }()
	return schemaVersion(t.Context(), pool)
}

const (
	stepOne  = "CREATE TABLE one (a TEXT)"
	excluded = "-- compatible_with: 2\nALTER TABLE one ADD COLUMN b TEXT" // version 2 excludes version 1
	adds     = "CREATE TABLE three (a TEXT)"
	fails    = "INSERT INTO nowhere VALUES (1)"
)

// The copy from before a step that excludes older versions stays when a later step fails, and when
// the database is copied again.
func TestCopyOfAnExcludedSchemaIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "perigee.db")
	if err := upgradeTo(t, path, stepOne); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := upgradeTo(t, path, stepOne, excluded, fails); err == nil {
			t.Fatal("a step that fails was applied")
		}
		if version, err := versionOf(t, path); version != 2 || err != nil {
			t.Fatalf("version %d, %v", version, err)
		}
	}
	wantCopies(t, path, 2, 3)
	if err := upgradeTo(t, path, stepOne, excluded, adds, "CREATE TABLE four (a TEXT)"); err != nil {
		t.Fatal(err)
	}
	wantCopies(t, path, 2, 3)
	// A copy of version 4 serves the versions that could use the one of version 2.
	if err := upgradeTo(t, path, stepOne, excluded, adds, "CREATE TABLE four (a TEXT)", "CREATE TABLE five (a TEXT)"); err != nil {
		t.Fatal(err)
	}
	wantCopies(t, path, 2, 5)
}

// A file with the name of the copy that has an excluded schema, or cannot be read, is kept, and then
// a required copy cannot be made.
func TestCopyDoesNotReplaceTheWayBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "perigee.db")
	for _, steps := range [][]string{{stepOne}, {stepOne, excluded}} {
		if err := upgradeTo(t, path, steps...); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Rename(CopyName(path, 2), CopyName(path, 3)); err != nil {
		t.Fatal(err)
	}
	if err := upgradeTo(t, path, stepOne, excluded, "-- compatible_with: 3\n"+adds); err == nil {
		t.Error("the database was migrated without a copy")
	}
	if err := upgradeTo(t, path, stepOne, excluded, adds); err != nil {
		t.Error(err)
	}
	if version, err := versionOf(t, CopyName(path, 3)); version != 1 || err != nil {
		t.Errorf("the copy has schema version %d, %v", version, err)
	}
}

// The copies of a file are those in its directory, also if the path is a pattern that matches
// another one.
func TestCopiesAreInTheDirectoryOfTheDatabase(t *testing.T) {
	dir := t.TempDir()
	path, other := filepath.Join(dir, "g[1]", "perigee.db"), filepath.Join(dir, "g1", "perigee.db")
	foreign := []string{CopyName(other, 1), CopyName(other, 2) + ".17", path + ".before-2.17.txt", path + ".before-my.before-2.17"}
	for _, name := range append(foreign, CopyName(path, 2)+".17") {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, steps := range [][]string{{stepOne}, {stepOne, adds}, {stepOne, adds, "CREATE TABLE two (a TEXT)"}} {
		if err := upgradeTo(t, path, steps...); err != nil {
			t.Fatal(err)
		}
	}
	wantCopies(t, path, 3)
	if _, unfinished := copies(path); len(unfinished) != 0 {
		t.Errorf("a copy that was not finished is left: %q", unfinished)
	}
	for _, name := range foreign {
		if _, err := os.Stat(name); err != nil {
			t.Error(err)
		}
	}
}

// Processes that open a database of an older version at the same time migrate it once, after one
// copy of that version.
func TestConcurrentUpgradesKeepTheCopy(t *testing.T) {
	const rounds, processes = 5, 4
	for range rounds {
		path := filepath.Join(t.TempDir(), "perigee.db")
		if err := upgradeTo(t, path, stepOne+"; INSERT INTO one SELECT hex(zeroblob(2000000))"); err != nil {
			t.Fatal(err)
		}
		begin, results := make(chan struct{}), make(chan error, processes)
		for range processes {
			go func() {
				<-begin
				results <- upgradeTo(t, path, stepOne, excluded)
			}()
		}
		close(begin)
		for range processes {
			if err := await.Receive(t, results, "a process that upgrades"); err != nil {
				t.Error(err)
			}
		}
		wantCopies(t, path, 2)
	}
}

// The version that decides whether the database is copied is read under the lock.
func TestUpgradeReadsTheVersionUnderItsLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "perigee.db")
	if err := upgradeTo(t, path, stepOne); err != nil {
		t.Fatal(err)
	}
	files := fstest.MapFS{"0001_step.sql": {Data: []byte(stepOne)}}
	opts := Options{Path: path, Migrations: files, Now: time.Now, Logger: slog.New(slog.DiscardHandler)}
	db, err := Open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	files["0002_step.sql"] = &fstest.MapFile{Data: []byte(excluded)}
	steps, err := readMigrations(files)
	if err != nil {
		t.Fatal(err)
	}
	var copied []int
	db.backUp = func(ctx context.Context, version int, required bool, _ *slog.Logger) error {
		copied = append(copied, version)
		if _, err := atomicfile.Lock(ctx, path+".lock", 0); !errors.Is(err, atomicfile.ErrHeld) || !required {
			t.Errorf("required %v; another process gets the lock: %v", required, err)
		}
		return nil
	}
	for _, want := range []int{1, 0} { // the second process has read version 1 before the first was done
		if applied, err := db.upgrade(t.Context(), 1, steps, opts); applied != want || err != nil {
			t.Errorf("%d steps, %v", applied, err)
		}
	}
	if !slices.Equal(copied, []int{1}) {
		t.Errorf("copies of the versions %v", copied)
	}
}
