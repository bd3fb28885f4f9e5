package trajectory

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	jetskicortexpb "perigee/gen/exa/jetski_cortex_pb"
	"perigee/internal/testing/perigeetest"
	"perigee/internal/testing/perigeetest/await"
	"perigee/internal/testing/perigeetest/dbtest"
)

// files are the names and contents of a directory.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[e.Name()] = string(data)
	}
	return all
}

// unchanged reports files of a directory that differ from what they were.
func unchanged(t *testing.T, dir string, before map[string]string) {
	t.Helper()
	after := files(t, dir)
	for name := range after {
		if after[name] != before[name] {
			t.Errorf("%s was written", name)
		}
	}
	if len(after) != len(before) {
		t.Errorf("there are %d files, and there were %d", len(after), len(before))
	}
}

func list(t *testing.T, s Source) string {
	t.Helper()
	l, err := s.Summaries(t.Context())
	if err != nil {
		return "error " + message(err)
	}
	return describe(l)
}

// The editor has its database open, with a log that was never written back and a transaction that
// is open.
func TestStateDatabaseBesideTheEditor(t *testing.T) {
	for _, journal := range []string{"WAL", "DELETE"} {
		t.Run(journal, func(t *testing.T) {
			temporary := t.TempDir()
			t.Setenv("TMPDIR", temporary)
			e := dbtest.NewEditor(t, journal)
			e.Exec("PRAGMA wal_autocheckpoint = 0")
			e.Set("other", strings.Repeat("x", 100_000))
			e.Set(summariesKey, stateValue(t, map[string]*jetskicortexpb.CascadeTrajectorySummary{"c1": exampleSummary()}))
			dir := filepath.Dir(e.Path)
			if journal == "WAL" {
				tx, err := e.DB.Begin()
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = tx.Rollback() }()
				if _, err := tx.Exec("DELETE FROM ItemTable"); err != nil {
					t.Fatal(err)
				}
				if files(t, dir)["state.vscdb-wal"] == "" {
					t.Fatal("there is no log")
				}
			}
			before := files(t, dir)
			s := StateDatabaseSource(e.Path)
			if got := list(t, s); got != "c1"+exampleText {
				t.Errorf("got %s", got)
			}
			unchanged(t, dir, before)
			if left := files(t, temporary); len(left) != 0 {
				t.Errorf("%d copies were left", len(left))
			}
		})
	}
}

// A database that changes is read again, and one that does not is not.
func TestStateDatabaseIsReadWhenItChanges(t *testing.T) {
	e := dbtest.NewEditor(t, "DELETE")
	s := StateDatabaseSource(e.Path)
	if got := list(t, s); got != "! it has no list of conversations" {
		t.Errorf("got %s", got)
	}
	for i := range 5 {
		id := fmt.Sprint("c", i)
		e.Set(summariesKey, stateValue(t, map[string]*jetskicortexpb.CascadeTrajectorySummary{id: exampleSummary()}))
		if got := list(t, s); got != id+exampleText {
			t.Errorf("got %s", got)
		}
	}
	// Its times are old: the next reading needs no copy, so that it works without the permission to
	// make one.
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(e.Path, old, old); err != nil {
		t.Fatal(err)
	}
	if got := list(t, s); got != "c4"+exampleText {
		t.Errorf("got %s", got)
	}
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "missing"))
	if got := list(t, s); got != "c4"+exampleText {
		t.Errorf("got %s", got)
	}
	e.Set("another", "change")
	if got := list(t, s); !strings.HasPrefix(got, "error ") {
		t.Errorf("got %s", got)
	}
}

func TestStateDatabaseInTrouble(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state.vscdb")
	if _, err := StateDatabaseSource(path).Summaries(t.Context()); !errors.Is(err, fs.ErrNotExist) || strings.Contains(message(err), dir) {
		t.Errorf("got %v", message(err))
	}
	for name, content := range map[string]string{"empty": "", "text": "no database", "corrupt": "SQLite format 3\x00" + strings.Repeat("\xff", 5000)} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := list(t, StateDatabaseSource(path)); !strings.HasPrefix(got, "error ") || strings.Contains(got, dir) {
			t.Errorf("%s: got %s", name, got)
		}
		unchanged(t, dir, map[string]string{"state.vscdb": content})
	}
	e := dbtest.NewEditor(t, "WAL")
	e.Set(summariesKey, strings.Repeat("A", 17<<20))
	if got := list(t, StateDatabaseSource(e.Path)); got != "! its list of conversations is too large" {
		t.Errorf("got %s", got)
	}
	e.Set(summariesKey, "CgJoaQ=")
	if got := list(t, StateDatabaseSource(e.Path)); !strings.HasPrefix(got, "! ") {
		t.Errorf("got %s", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := StateDatabaseSource(e.Path).Summaries(ctx); err == nil {
		t.Error("no error")
	}
}

// Profiles have thousands of conversations.
func TestLargeStateDatabase(t *testing.T) {
	e := dbtest.NewEditor(t, "WAL")
	many := map[string]*jetskicortexpb.CascadeTrajectorySummary{}
	for i := range 5000 {
		s := exampleSummary()
		s.Summary = strings.Repeat("long title ", 40)
		many[fmt.Sprint("c", i)] = s
	}
	value := stateValue(t, many)
	if len(value) < 4<<20 {
		t.Fatalf("it has only %d bytes", len(value))
	}
	e.Set(summariesKey, value)
	l, err := StateDatabaseSource(e.Path).Summaries(t.Context())
	if err != nil || len(l.Conversations) != 5000 || l.Degraded != nil {
		t.Errorf("got %d conversations, %v, %v", len(l.Conversations), l.Degraded, err)
	}
}

// The editor writes all the time; each listing is one of some moment.
// Real time: the pauses of the writer leave room for readers.
func TestStateDatabaseWhileItIsWritten(t *testing.T) {
	perigeetest.Slow(t)
	for _, journal := range []string{"WAL", "DELETE"} {
		e := dbtest.NewEditor(t, journal)
		values := make([][]byte, 10)
		for i := range values {
			two := map[string]*jetskicortexpb.CascadeTrajectorySummary{fmt.Sprint("a", i): exampleSummary(), fmt.Sprint("b", i): exampleSummary()}
			values[i] = stateValue(t, two)
		}
		e.Set(summariesKey, values[0])
		stop := make(chan struct{})
		stopped := make(chan error, 1)
		go func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					stopped <- nil
					return
				case <-time.After(2 * time.Millisecond):
				}
				if _, err := e.DB.Exec("INSERT INTO ItemTable VALUES (?, ?)", summariesKey, values[i%10]); err != nil {
					stopped <- err
					return
				}
			}
		}()
		s := StateDatabaseSource(e.Path)
		read := 0
		for range 20 {
			l, err := s.Summaries(t.Context())
			if err != nil {
				continue // it is being written to: that is an error of this source, and no listing
			}
			read++
			if len(l.Conversations) != 2 || l.Conversations[0].ID[1:] != l.Conversations[1].ID[1:] || l.Degraded != nil {
				t.Errorf("got %+v", l)
			}
		}
		close(stop)
		if err := await.Receive(t, stopped, "the end of the writer"); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Summaries(t.Context()); err != nil {
			t.Error(err)
		}
		t.Logf("%s: %d of 20 readings", journal, read)
	}
}
