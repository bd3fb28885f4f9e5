package vscdb

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"perigee/internal/testing/perigeetest/dbtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// An editor has a database open.
type editor struct {
	*dbtest.Editor
	t *testing.T
}

func newEditor(t *testing.T, journal string) *editor {
	return &editor{dbtest.NewEditor(t, journal), t}
}

// files are the names and contents of what lies beside the database.
func (e *editor) files() map[string]string {
	e.t.Helper()
	names, err := filepath.Glob(filepath.Join(filepath.Dir(e.Path), "*"))
	if err != nil {
		e.t.Fatal(err)
	}
	files := map[string]string{}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			e.t.Fatal(err)
		}
		files[name] = string(data)
	}
	return files
}

func TestReadBesideTheEditor(t *testing.T) {
	for _, journal := range []string{"DELETE", "WAL"} {
		t.Run(journal, func(t *testing.T) {
			temporary := t.TempDir()
			t.Setenv("TMPDIR", temporary)
			e := newEditor(t, journal)
			e.Set("a", "old")
			e.Set("a", "new")
			e.Set("b", strings.Repeat("long ", 100_000))
			before := e.files()
			if journal == "WAL" && before[e.Path+"-wal"] == "" {
				t.Fatal("there is no log to be read")
			}
			values, err := Read(t.Context(), e.Path, "a", "b", "c")
			if err != nil {
				t.Fatal(err)
			}
			if len(values) != 2 || string(values["a"]) != "new" || len(values["b"]) != 500_000 {
				t.Errorf("got %d values, a is %q", len(values), values["a"])
			}
			after := e.files()
			for name := range after {
				if after[name] != before[name] {
					t.Errorf("%s was changed", filepath.Base(name))
				}
			}
			if len(after) != len(before) {
				t.Errorf("there are %d files, and there were %d", len(after), len(before))
			}
			if left, _ := os.ReadDir(temporary); len(left) != 0 {
				t.Errorf("%d copies were left behind", len(left))
			}
		})
	}
}

// TestReadWhileTheEditorHoldsALock has a transaction open all the time.
func TestReadWhileTheEditorHoldsALock(t *testing.T) {
	e := newEditor(t, "WAL")
	e.Set("a", "committed")
	tx, err := e.DB.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.Exec("INSERT INTO ItemTable VALUES ('a', 'not yet')"); err != nil {
		t.Fatal(err)
	}
	if values, err := Read(t.Context(), e.Path, "a"); err != nil || string(values["a"]) != "committed" {
		t.Errorf("got %q, %v", values["a"], err)
	}
}

func TestReadWaitsForATransaction(t *testing.T) {
	e := newEditor(t, "DELETE")
	e.Set("a", "value")
	journal := e.Path + "-journal"
	if err := os.WriteFile(journal, []byte("half a transaction"), 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		if _, err := Read(t.Context(), e.Path, "a"); !errors.Is(err, errMoving) {
			t.Errorf("got %v", err)
		}
		time.AfterFunc(100*time.Millisecond, func() { _ = os.Remove(journal) })
		// The driver works in goroutines of its own, and is done before the bubble ends.
		if values, err := Read(t.Context(), e.Path, "a"); err != nil || string(values["a"]) != "value" {
			t.Errorf("got %q, %v", values["a"], err)
		}
	})
}

// TestCopyIsOfOneMoment has the editor write after the database was copied and before its log is.
func TestCopyIsOfOneMoment(t *testing.T) {
	for _, journal := range []string{"DELETE", "WAL"} {
		e := newEditor(t, journal)
		e.Set("a", "old")
		to := filepath.Join(t.TempDir(), "copy")
		_, err := copyStill(e.Path, to, func(from, to string, size int64) error {
			if err := copyFile(from, to, size); err != nil || from != e.Path {
				return err
			}
			e.Set("a", "new")
			return nil
		})
		if !errors.Is(err, errMoving) {
			t.Errorf("%s: got %v", journal, err)
		}
	}
}

func TestReadWhatIsNotThere(t *testing.T) {
	if _, err := Read(t.Context(), filepath.Join(t.TempDir(), "no"), "a"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	broken := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(broken, []byte(Magic+strings.Repeat("\xff", 4096)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(ctx, broken, "a"); err == nil {
		t.Error("no error")
	}
	if _, err := Read(t.Context(), broken, "a"); err == nil {
		t.Error("no error")
	}
}
