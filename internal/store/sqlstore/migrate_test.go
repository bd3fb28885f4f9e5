package sqlstore

import (
	"database/sql"
	"io/fs"
	"os"
	"testing"
	"testing/fstest"

	"perigee/internal/store/sqlstore/engine"
)

// atVersion makes a database as an older perigee left it, and returns a way to it.
func atVersion(t *testing.T, options Options, version int) *sql.DB {
	t.Helper()
	names, err := fs.Glob(migrations(), "*.sql")
	if err != nil || len(names) < version {
		t.Fatalf("%d steps, %v", len(names), err)
	}
	files := fstest.MapFS{}
	for _, name := range names[:version] {
		data, err := fs.ReadFile(migrations(), name)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = &fstest.MapFile{Data: data}
	}
	if options.Path != "" { // which has the newest version
		if err := os.Remove(options.Path); err != nil {
			t.Fatal(err)
		}
	}
	db, err := engine.Open(t.Context(), engine.Options{Path: options.Path, URL: options.URL, Migrations: files, Now: atNoon})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db.Write
}
