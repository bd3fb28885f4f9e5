package sqlstore

import (
	"context"
	"crypto/rand"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"perigee"
	"perigee/internal/perigeetest/dbtest"
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

func needPostgres(t testing.TB) {
	t.Helper()
	dbtest.PostgresServer(t)
}

func atNoon() time.Time { return noon }

// freshSQLite copies a database that was migrated once: the migrations of each test would be most of its time.
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
