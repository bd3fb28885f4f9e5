package perigeetest

import (
	"context"
	"crypto/rand"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// PostgresVariable names the server that tests may use. make e2e starts one.
const PostgresVariable = "PERIGEE_TEST_POSTGRES"

// Postgres returns the address of an empty schema on the server that PostgresVariable names, for this test alone. Where there is
// no server the test is skipped.
func Postgres(t *testing.T) string {
	t.Helper()
	address := os.Getenv(PostgresVariable)
	if address == "" {
		t.Skip(PostgresVariable + " names no PostgreSQL server")
	}
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
