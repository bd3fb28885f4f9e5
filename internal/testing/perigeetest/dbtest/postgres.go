// Package dbtest has databases for tests: schemas on a PostgreSQL server, and the state of an
// editor in SQLite. It is beside perigeetest so that tests without a database are not linked with
// its drivers.
package dbtest

import (
	"context"
	"crypto/rand"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// PostgresVariable names the server that tests may use, as in
// postgres://user@127.0.0.1:5432/database. make e2e starts one, and runs every package whose tests
// ask for it here.
const PostgresVariable = "PERIGEE_TEST_POSTGRES"

// Postgres returns the address of an empty schema on the server that PostgresVariable names, for
// this test alone. Where there is no server the test is skipped.
func Postgres(t testing.TB) string {
	t.Helper()
	address := PostgresServer(t)
	schema := "test_" + strings.ToLower(rand.Text()[:12])
	run := func(statement string) {
		conn, err := pgx.Connect(context.Background(), address)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close(context.Background()) }()
		if _, err := conn.Exec(context.Background(), statement); err != nil {
			t.Fatal(err)
		}
	}
	run("CREATE SCHEMA " + schema)
	t.Cleanup(func() { run("DROP SCHEMA " + schema + " CASCADE") })
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("search_path", schema)
	u.RawQuery = q.Encode()
	return u.String()
}

// PostgresServer returns the address of the server itself, for what a schema is not enough for.
func PostgresServer(t testing.TB) string {
	t.Helper()
	address := os.Getenv(PostgresVariable)
	if address == "" {
		t.Skip(PostgresVariable + " names no PostgreSQL server")
	}
	return address
}
