package vscdb

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// database makes a file by these statements.
func database(t *testing.T, statements ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "state.vscdb")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	for _, statement := range statements {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	return path
}

const ordinary = `CREATE TABLE ItemTable (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB)`

// An untrusted file may define programs in place of data. They are refused before they run.
func TestHostileSchemas(t *testing.T) {
	slow := `(hex(zeroblob(100000)))`
	endless := `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT `
	for name, test := range map[string]struct {
		statements []string
		want       string
	}{
		"generated value": {[]string{`CREATE TABLE ItemTable (key TEXT, value BLOB AS ` + slow + `)`, `INSERT INTO ItemTable (key) VALUES ('a')`}, "computed"},
		"generated key": {[]string{`CREATE TABLE ItemTable (x TEXT, key TEXT AS ` + slow + `, value BLOB)`,
			`INSERT INTO ItemTable (x, value) VALUES ('a', 'b')`}, "computed"},
		"another generated column": {[]string{`CREATE TABLE ItemTable (key TEXT, value BLOB, more BLOB AS ` + slow + `)`}, "computed"},
		"view":                     {[]string{`CREATE VIEW ItemTable AS ` + endless + `'a' AS key, 'b' AS value FROM n`}, "no table of items"},
		"virtual table":            {[]string{`CREATE VIRTUAL TABLE ItemTable USING fts5(key, value)`}, "no table of items"},
		"other columns":            {[]string{`CREATE TABLE ItemTable (k TEXT, v BLOB)`}, "no table of items"},
		"no table":                 {[]string{`CREATE TABLE x (y)`}, "no table of items"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Read(t.Context(), database(t, test.statements...), "a")
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// An index over an expression is not evaluated by reading, and neither is a check.
func TestReadEvaluatesNothing(t *testing.T) {
	path := database(t, `CREATE TABLE ItemTable (key TEXT, value BLOB CHECK (length(hex(zeroblob(length(key)))) > 0))`,
		`CREATE INDEX heavy ON ItemTable (key, length(hex(zeroblob(length(value)))))`, `INSERT INTO ItemTable VALUES ('a', 'b')`)
	if values, err := Read(t.Context(), path, "a"); err != nil || string(values["a"]) != "b" {
		t.Errorf("got %q, %v", values["a"], err)
	}
}

func TestValuesAreBounded(t *testing.T) {
	path := database(t, ordinary, `INSERT INTO ItemTable VALUES ('large', zeroblob(17000000)), ('huge', zeroblob(70000000)), ('a', 'b')`)
	values, err := Read(t.Context(), path, "large", "a")
	if large, there := values["large"]; err != nil || string(values["a"]) != "b" || !there || large != nil {
		t.Errorf("got %d values, %v", len(values), err)
	}
	if values, err := Read(t.Context(), path, "huge"); values["huge"] != nil {
		t.Errorf("got %d bytes, %v", len(values["huge"]), err)
	}
}

// A large file is refused before anything is copied, and a file that cannot be read is copied once.
func TestCopiesAreBounded(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	large := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(large, []byte(Magic), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, maxSize+1); err != nil {
		t.Skip("no sparse files here:", err)
	}
	if _, err := Read(t.Context(), large, "a"); !errors.Is(err, errTooLarge) {
		t.Errorf("got %v", err)
	}
	copies := 0
	_, err := copyStill(large, filepath.Join(t.TempDir(), "copy"), func(string, string, int64) error { copies++; return nil })
	if !errors.Is(err, errTooLarge) || copies != 0 {
		t.Errorf("%d copies, %v", copies, err)
	}
	broken := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(broken, []byte(Magic+strings.Repeat("\xff", 4096)), 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if _, err := Read(t.Context(), broken, "a"); err == nil {
			t.Error("no error")
		}
		if paused := time.Since(began); paused != 0 { // between two copies it pauses, and nothing else takes time here
			t.Errorf("it was copied again after %v", paused)
		}
	})
	if left, _ := os.ReadDir(temporary); len(left) != 0 {
		t.Errorf("%d copies were left behind", len(left))
	}
}

func TestLogThatIsNoFileIsRefused(t *testing.T) {
	path := database(t, ordinary)
	if err := os.Mkdir(path+"-wal", 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(t.Context(), path, "a"); err == nil || !strings.Contains(err.Error(), "is not a file") {
		t.Errorf("got %v", err)
	}
}

// SQLite parses a schema in one go, which takes minutes for tens of thousands of views. Such a
// database is refused before.
func TestLargeSchemasAreNotParsed(t *testing.T) {
	many := "BEGIN;"
	for i := range 300 {
		many += fmt.Sprintf("CREATE VIEW v%d AS SELECT 1;", i)
	}
	many += "COMMIT"
	whole := database(t, ordinary, many)
	if _, err := Read(t.Context(), whole, "a"); !errors.Is(err, errSchema) {
		t.Errorf("got %v", err)
	}
	if _, err := Read(t.Context(), database(t, ordinary, "CREATE VIEW v AS SELECT '"+strings.Repeat("x", 5000)+"'"), "a"); err == nil {
		t.Error("a definition of 5,000 bytes was parsed")
	}
	// The same in the log.
	e := newEditor(t, "WAL")
	e.Set("a", "b")
	if values, err := Read(t.Context(), e.Path, "a"); err != nil || string(values["a"]) != "b" {
		t.Fatalf("got %q, %v", values["a"], err)
	}
	if _, err := e.DB.ExecContext(t.Context(), many); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(t.Context(), e.Path, "a"); !errors.Is(err, errSchema) {
		t.Errorf("got %v", err)
	}
}
