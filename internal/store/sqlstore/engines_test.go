package sqlstore

import (
	"context"
	"crypto/rand"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"perigee"
	"perigee/internal/store/sqlstore/engine"
	"perigee/internal/testing/perigeetest/dbtest"
)

// fresh gives the options of a new, empty database. Opening them twice opens the same database.
type fresh func(t testing.TB) Options

// onEngines holds a promise against SQLite, and against PostgreSQL where there is one.
func onEngines(t *testing.T, run func(t *testing.T, fresh fresh)) {
	t.Run("sqlite", func(t *testing.T) { run(t, freshSQLite) })
	t.Run("postgres", func(t *testing.T) {
		needPostgres(t)
		run(t, freshPostgres)
	})
}

// onNewerSchemas holds a promise as onEngines does, and against databases that a newer perigee has
// migrated.
func onNewerSchemas(t *testing.T, run func(t *testing.T, fresh fresh)) {
	onEngines(t, run)
	t.Run("sqlite of a newer perigee", func(t *testing.T) { run(t, newer(freshSQLite)) })
	t.Run("postgres of a newer perigee", func(t *testing.T) {
		needPostgres(t)
		run(t, newer(freshPostgres))
	})
}

// newer returns databases to which a perigee of the future has added columns, a table and an index.
func newer(fresh fresh) fresh {
	return func(t testing.TB) Options {
		t.Helper()
		options := fresh(t)
		files := fstest.MapFS{}
		version := 0
		names, err := fs.Glob(migrations(), "*.sql")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			data, err := fs.ReadFile(migrations(), name)
			if err != nil {
				t.Fatal(err)
			}
			files[name] = &fstest.MapFile{Data: data}
			if _, err := fmt.Sscanf(name, "%d_", &version); err != nil {
				t.Fatal(err)
			}
		}
		step := "CREATE TABLE future (a TEXT);\nCREATE INDEX future_model ON calls (model, upstream);\n"
		for _, table := range []string{"calls", "daily_usage", "stored_responses", "response_items", "response_totals",
			"signatures", "accounts", "cooldowns", "sessions", "replicas", "key_requests", "audit"} {
			step += "ALTER TABLE " + table + " ADD COLUMN future TEXT NOT NULL DEFAULT 'none';\n"
		}
		files[fmt.Sprintf("%04d_future.sql", version+1)] = &fstest.MapFile{Data: []byte(step)}
		db, err := engine.Open(t.Context(), engine.Options{Path: options.Path, URL: options.URL, Migrations: files, Now: atNoon,
			Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		return options
	}
}

func needPostgres(t testing.TB) {
	t.Helper()
	dbtest.PostgresServer(t)
}

func atNoon() time.Time { return noon }

// freshSQLite copies a database that was migrated once: the migrations of each test would be most
// of its time.
func freshSQLite(t testing.TB) Options {
	t.Helper()
	file, err := emptySQLite()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "perigee.db")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	return Options{Path: path, Now: atNoon}
}

// emptySQLite is the file of a database without rows.
var emptySQLite = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "perigee")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "perigee.db")
	s, err := Open(context.Background(), Options{Path: path, Now: atNoon})
	if err != nil {
		return nil, err
	}
	if err := s.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

func freshPostgres(t testing.TB) Options {
	t.Helper()
	return Options{URL: perigee.NewSecret(dbtest.Postgres(t)), Replica: "replica-" + strings.ToLower(rand.Text()[:12]), Now: atNoon}
}

func withParameter(t testing.TB, address perigee.Secret, name, value string) perigee.Secret {
	t.Helper()
	u, err := url.Parse(address.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set(name, value)
	u.RawQuery = q.Encode()
	return perigee.NewSecret(u.String())
}

// administer runs a statement on the server, outside of any store.
func administer(t testing.TB, statement string) {
	t.Helper()
	config, err := pgx.ParseConfig(dbtest.PostgresServer(t))
	if err != nil {
		t.Fatal(err)
	}
	db := stdlib.OpenDB(*config)
	defer func() { _ = db.Close() }()
	if _, err := db.ExecContext(context.Background(), statement); err != nil {
		t.Fatal(err)
	}
}

// openWith opens a store that is closed with the test.
func openWith(t testing.TB, opts Options) *Store {
	t.Helper()
	s, err := Open(context.Background(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mustClose(t, s) })
	if err := s.WarmUp(context.Background()); err != nil {
		t.Fatal(err)
	}
	return s
}

// open opens an SQLite file.
func open(t testing.TB, path string) *Store {
	t.Helper()
	return openWith(t, Options{Path: path, Now: atNoon})
}

func mustClose(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
