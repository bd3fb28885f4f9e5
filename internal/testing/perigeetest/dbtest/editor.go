package dbtest

import (
	"database/sql"
	"path/filepath"
	"testing"

	_ "modernc.org/sqlite" // what editors keep their state in
)

// An Editor has its state.vscdb open, as IDEs do while they run.
type Editor struct {
	Path string
	DB   *sql.DB
	t    *testing.T
}

// NewEditor makes an empty state.vscdb with a journal of this kind.
func NewEditor(t *testing.T, journal string) *Editor {
	t.Helper()
	path := filepath.Join(t.TempDir(), "state.vscdb")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { _ = db.Close() })
	e := &Editor{path, db, t}
	e.Exec("PRAGMA journal_mode = " + journal)
	e.Exec("CREATE TABLE ItemTable (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB)")
	return e
}

// Exec runs a statement.
func (e *Editor) Exec(query string, args ...any) {
	e.t.Helper()
	if _, err := e.DB.Exec(query, args...); err != nil {
		e.t.Fatal(err)
	}
}

// Set writes an item. Editors write text or bytes.
func (e *Editor) Set(key string, value any) {
	e.t.Helper()
	e.Exec("INSERT INTO ItemTable VALUES (?, ?)", key, value)
}
