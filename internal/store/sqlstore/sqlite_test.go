package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"perigee"
	"perigee/internal/testing/perigeetest/await"
)

func TestMain(m *testing.M) {
	if child, ok := children[os.Getenv(childVariable)]; ok {
		child(os.Getenv(childPath))
		return
	}
	goleak.VerifyTestMain(m)
}

func TestFilesAreOurs(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("modes mean nothing here")
	}
	dir := filepath.Join(t.TempDir(), "new", "data")
	path := filepath.Join(dir, "a ?b#c%20.db")
	s := open(t, path)
	mustSave(t, s, fullCall("a"))
	wantModes := func() {
		t.Helper()
		for name, want := range map[string]fs.FileMode{dir: 0o700, path: 0o600, path + "-wal": 0o600, path + "-shm": 0o600} {
			info, err := os.Stat(name)
			if err != nil {
				t.Error(err)
			} else if info.Mode().Perm() != want {
				t.Errorf("%s is %v, want %v", name, info.Mode().Perm(), want)
			}
		}
	}
	wantModes()
	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		if err := os.Chmod(name, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	open(t, path)
	wantModes()
}

func TestSettings(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "perigee.db"))
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "1", "foreign_keys": "1", "busy_timeout": "5000"} {
		var got string
		if err := s.db.Write.QueryRow("PRAGMA " + pragma).Scan(&got); err != nil || got != want {
			t.Errorf("%s is %q, %v, want %q", pragma, got, err, want)
		}
	}
	if _, err := s.db.Read.Exec("DELETE FROM calls"); err == nil {
		t.Error("a reader could write")
	}
}

func TestReopen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "perigee.db")
	first, err := Open(t.Context(), Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	mustSave(t, first, fullCall("a"))
	mustClose(t, first)
	if got := ids(mustCalls(t, open(t, path), perigee.CallQuery{})); !slices.Equal(got, []string{"a"}) {
		t.Errorf("got %v", got)
	}
}

func TestManyStartAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "perigee.db")
	var starting sync.WaitGroup
	for i := range 8 {
		starting.Go(func() {
			s, err := Open(t.Context(), Options{Path: path})
			if err != nil {
				t.Error(err)
				return
			}
			mustSave(t, s, fullCall(fmt.Sprint(i)))
			mustClose(t, s)
		})
	}
	await.Return(t, starting.Wait, "the starts")
	if got := mustCalls(t, open(t, path), perigee.CallQuery{}); len(got) != 8 {
		t.Errorf("got %v", ids(got))
	}
}

// futureVersion makes a database one that only a newer perigee can use.
const futureVersion = `INSERT INTO schema_version (version, name, applied_us, compatible_with) VALUES (99, '0099_future', 0, 98)`

// TestRefusals opens what is no database of ours. The message must name the file and what to do.
func TestRefusals(t *testing.T) {
	newer := func(t *testing.T, path string) {
		s := open(t, path)
		if _, err := s.db.Write.Exec(futureVersion); err != nil {
			t.Fatal(err)
		}
	}
	write := func(text string) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	tests := []struct {
		name    string
		prepare func(t *testing.T, path string)
		only    string // "" means both ways of opening
		class   perigee.Class
		message string
		next    string
	}{
		{"not a database", write(strings.Repeat("this is not a database ", 100)), "", perigee.ClassInternal, "perigee.db", "away"},
		{"torn header", write("SQLite format 3\x00" + strings.Repeat("\xff", 4096)), "", perigee.ClassInternal, "perigee.db", "away"},
		{"a newer schema", newer, "", perigee.ClassUnavailable, "99", "newer"},
		{"another program's database", foreignDatabase, "rw", perigee.ClassInvalid, "another program", "data_dir"},
		{"another program's database", foreignDatabase, "ro", perigee.ClassNotFound, "no calls recorded yet", "perigee serve"},
		{"no database", func(*testing.T, string) {}, "ro", perigee.ClassNotFound, "no calls recorded yet", "perigee serve"},
		{"an empty file", write(""), "ro", perigee.ClassNotFound, "no calls recorded yet", "perigee serve"},
		{"a directory", func(t *testing.T, path string) {
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
		}, "", perigee.ClassUnavailable, "perigee.db", "data_dir"},
	}
	for _, test := range tests {
		for _, way := range []string{"rw", "ro"} {
			if test.only != "" && test.only != way {
				continue
			}
			t.Run(test.name+" "+way, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "perigee.db")
				test.prepare(t, path)
				before, _ := os.ReadFile(path)
				_, err := Open(t.Context(), Options{Path: path, ReadOnly: way == "ro"})
				e := wantClass(t, err, test.class)
				if !strings.Contains(e.Message, test.message) || !strings.Contains(e.Hint, test.next) {
					t.Errorf("got %q, next %q", e.Message, e.Hint)
				}
				if after, _ := os.ReadFile(path); string(after) != string(before) {
					t.Error("the file was changed")
				}
			})
		}
	}
}

func foreignDatabase(t *testing.T, path string) {
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("CREATE TABLE bookmarks (url TEXT)"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestCorruptPagesAreExplained(t *testing.T) {
	path := filepath.Join(t.TempDir(), "perigee.db")
	s, err := Open(t.Context(), Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		mustSave(t, s, fullCall(fmt.Sprint(i)))
	}
	mustClose(t, s)
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	// The first page, with the schema, stays; the rest is noise.
	if _, err := file.WriteAt([]byte(strings.Repeat("\xa5", 40*4096)), 4096); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	s, err = Open(t.Context(), Options{Path: path, ReadOnly: true})
	if err == nil {
		t.Cleanup(func() { mustClose(t, s) })
		_, err = s.Usage(t.Context(), perigee.UsageQuery{})
	}
	if e := wantClass(t, err, perigee.ClassInternal); !strings.Contains(e.Hint, "away") {
		t.Errorf("got %q", e.Error())
	}
}

func TestReadOnlyBesideAWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "perigee.db")
	daemon := open(t, path)
	mustSave(t, daemon, fullCall("a"))
	reader, err := Open(t.Context(), Options{Path: path, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mustClose(t, reader) })
	mustSave(t, daemon, fullCall("b")) // only in the log so far
	if got := ids(mustCalls(t, reader, perigee.CallQuery{})); !slices.Equal(got, []string{"b", "a"}) {
		t.Errorf("got %v", got)
	}
	if got := mustUsage(t, reader, perigee.UsageQuery{}); len(got) != 1 || got[0].Calls != 2 {
		t.Errorf("got %+v", got)
	}
	wantClass(t, reader.SaveCalls(t.Context(), []perigee.Call{fullCall("c")}), perigee.ClassInternal)
	_, err = reader.CutOffOpenCalls(t.Context())
	wantClass(t, err, perigee.ClassInternal)
}

func TestReadOnlyDoesNotMigrate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "perigee.db")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(`CREATE TABLE schema_version (version BIGINT NOT NULL PRIMARY KEY, name TEXT NOT NULL, applied_us BIGINT NOT NULL)`); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = Open(t.Context(), Options{Path: path, ReadOnly: true})
	wantClass(t, err, perigee.ClassNotFound)
}

func TestFullDisk(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "perigee.db"))
	mustSave(t, s, fullCall("before"))
	var pages int
	if err := s.db.Write.QueryRow("PRAGMA page_count").Scan(&pages); err != nil {
		t.Fatal(err)
	}
	setLimit := func(n int) {
		t.Helper()
		if _, err := s.db.Write.Exec(fmt.Sprintf("PRAGMA max_page_count = %d", n)); err != nil {
			t.Fatal(err)
		}
	}
	setLimit(pages + 2)
	batch := make([]perigee.Call, 500)
	for i := range batch {
		batch[i] = fullCall(fmt.Sprint(i))
	}
	e := wantClass(t, s.SaveCalls(t.Context(), batch), perigee.ClassUnavailable)
	if !strings.Contains(e.Hint, "free some space") {
		t.Errorf("got %q", e.Error())
	}
	if got := ids(mustCalls(t, s, perigee.CallQuery{})); !slices.Equal(got, []string{"before"}) {
		t.Errorf("a batch that did not fit left %d rows", len(got))
	}
	setLimit(1 << 30)
	mustSave(t, s, batch...)
	if got := mustUsage(t, s, perigee.UsageQuery{}); got[0].Calls != 501 {
		t.Errorf("afterwards: got %+v", got)
	}
}

// TestWaitsForAnotherWriter has a second process's lock in the way for a while.
func TestWaitsForAnotherWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "perigee.db")
	s, other := open(t, path), open(t, path)
	tx, err := other.db.Write.Begin()
	if err != nil {
		t.Fatal(err)
	}
	saved := make(chan error, 1)
	go func() { saved <- s.SaveCalls(context.Background(), []perigee.Call{fullCall("a")}) }()
	// Reading goes on meanwhile.
	if got := mustCalls(t, s, perigee.CallQuery{}); len(got) != 0 {
		t.Errorf("got %v", ids(got))
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := await.Receive(t, saved, "the save"); err != nil {
		t.Error(err)
	}
}

func TestClosedStoreSaysSo(t *testing.T) {
	s, err := Open(t.Context(), Options{Path: filepath.Join(t.TempDir(), "perigee.db")})
	if err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	if err := s.SaveCalls(t.Context(), []perigee.Call{fullCall("a")}); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
