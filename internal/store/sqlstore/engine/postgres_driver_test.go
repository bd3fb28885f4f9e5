package engine

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"perigee/internal/testing/perigeetest/await"
	"perigee/internal/testing/perigeetest/dbtest"
)

// eachPostgres runs a test with a pool of one connection to an empty schema, on which the server
// keeps prepared statements, and one on which it does not.
func eachPostgres(t *testing.T, test func(t *testing.T, db *sql.DB)) {
	for _, mode := range []string{"cache_statement", "exec"} {
		t.Run(mode, func(t *testing.T) {
			driver, err := newPostgresDriver(dbtest.Postgres(t) + "&default_query_exec_mode=" + mode)
			if err != nil {
				t.Fatal(err)
			}
			db := sql.OpenDB(driver)
			db.SetMaxOpenConns(1)
			defer func() { _ = db.Close() }()
			test(t, db)
		})
	}
}

func TestPostgresOptions(t *testing.T) {
	for options, want := range map[string]int{
		"": keptStatements,
		"default_query_exec_mode=cache_statement": keptStatements,
		"default_query_exec_mode=exec":            0,
		"default_query_exec_mode=simple_protocol": 0,
		"statement_cache_capacity=7":              7,
		"statement_cache_capacity=0":              0,
		"description_cache_capacity=9":            keptStatements,
		"default_query_exec_mode=fast":            -1,
		"statement_cache_capacity=many":           -1,
		"description_cache_capacity=many":         -1,
	} {
		driver, err := newPostgresDriver("postgres://ada@db.example.com/perigee?application_name=x&" + options)
		if want < 0 {
			if err == nil {
				t.Errorf("%s: no error", options)
			}
			continue
		}
		if err != nil || driver.keep != want || len(driver.config.RuntimeParams) != 1 {
			t.Errorf("%s: %d statements, parameters %v, %v", options, driver.keep, driver.config.RuntimeParams, err)
		}
	}
}

// TestPostgresValues sends values to the server and back, with settings that change how it writes
// texts.
func TestPostgresValues(t *testing.T) { eachPostgres(t, postgresValues) }

func postgresValues(t *testing.T, db *sql.DB) {
	if _, err := db.Exec(`SET bytea_output = 'escape'; SET lc_numeric = 'C'`); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		expression string
		arg        any
		want       any
	}{
		{`CAST($1 AS BIGINT)`, int64(math.MinInt64), int64(math.MinInt64)},
		{`CAST($1 AS BIGINT)`, nil, nil},
		{`CAST($1 AS INTEGER)`, -7, int64(-7)},
		{`CAST($1 AS BOOLEAN)`, true, true},
		{`CAST($1 AS BOOLEAN)`, false, false},
		{`CAST($1 AS TEXT)`, `a\x "' ü`, `a\x "' ü`},
		{`CAST($1 AS VARCHAR)`, "", ""},
		{`CAST($1 AS NAME)`, "calls", "calls"},
		{`CAST($1 AS TEXT)`, 12, "12"},
		{`'perigee ' || $1`, "lock", "perigee lock"},
		{`CAST($1 AS BYTEA)`, []byte("\\x00\x00\xff\\"), []byte("\\x00\x00\xff\\")},
		{`CAST($1 AS BYTEA)`, []byte{}, []byte{}},
		{`CAST($1 AS NUMERIC)`, "0", int64(0)},
		{`CAST($1 AS NUMERIC)`, "-1", int64(-1)},
		{`CAST($1 AS NUMERIC)`, "10000", int64(10000)},
		{`CAST($1 AS NUMERIC)`, "123456789012", int64(123456789012)},
		{`CAST($1 AS NUMERIC)`, int64(math.MaxInt64), int64(math.MaxInt64)},
		{`sum(CAST($1 AS BIGINT))`, int64(math.MinInt64), int64(math.MinInt64)},
	} {
		var got any
		err := db.QueryRow("SELECT "+test.expression, test.arg).Scan(&got)
		if err != nil || !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s of %#v: got %#v, %v", test.expression, test.arg, got, err)
		}
	}
	for _, query := range []string{`SELECT 1.5`, `SELECT CAST('NaN' AS NUMERIC)`, `SELECT CAST(2 AS NUMERIC) ^ 63`, `SELECT now()`} {
		if err := db.QueryRow(query).Scan(new(any)); err == nil {
			t.Errorf("%s: no error", query)
		}
	}
	if err := db.QueryRow(`SELECT $1`, 1.5).Scan(new(any)); err == nil {
		t.Error("a float was sent")
	}
}

// TestPostgresFailures checks that a connection is usable after each of them.
func TestPostgresFailures(t *testing.T) { eachPostgres(t, postgresFailures) }

func postgresFailures(t *testing.T, db *sql.DB) {
	if _, err := db.Exec(`CREATE TABLE a (n BIGINT PRIMARY KEY DEFERRABLE INITIALLY DEFERRED); CREATE TABLE b (n BIGINT)`); err != nil {
		t.Fatal(err)
	}
	bulk := func(statement string, rows ...any) error {
		conn, err := db.Conn(t.Context())
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		return inTransaction(t.Context(), conn, func(tx *sql.Tx) error {
			return postgresTx{tx, conn, &DB{Dialect: Dialect{Text: postgresText}}}.Each(t.Context(), ForEach(statement, rows))
		})
	}
	for name, test := range map[string]struct {
		run  func() error
		want string
	}{
		"a query":     {func() error { return db.QueryRow(`SELECT nothing`).Scan(new(any)) }, "42703"},
		"a late row":  {func() error { return eachRowOf(db, `SELECT 1/(5-n) FROM generate_series(1, 9) AS n`) }, "22012"},
		"a statement": {func() error { _, err := db.Exec(`INSERT INTO a VALUES ($1)`, "x"); return err }, "22P02"},
		"statements":  {func() error { _, err := db.Exec(`INSERT INTO b VALUES (1); INSERT INTO c VALUES (1)`); return err }, "42P01"},
		"a bulk":      {func() error { return bulk(`INSERT INTO b VALUES ($1)`, 1, "x") }, "22P02"},
		"no bulk":     {func() error { return bulk(`INSERT INTO c VALUES ($1)`, 1) }, "42P01"},
		"a commit":    {func() error { return bulk(`INSERT INTO a VALUES ($1)`, 1, 1) }, "23505"},
		"a commit after a failure": {func() error {
			return inTransaction(t.Context(), db, func(tx *sql.Tx) error {
				_, _ = tx.Exec(`SELECT nothing`)
				return nil
			})
		}, "answered COMMIT with ROLLBACK"},
	} {
		err := test.run()
		refusal, _ := errors.AsType[*pgconn.PgError](err)
		if err == nil || !strings.Contains(err.Error(), test.want) && (refusal == nil || refusal.Code != test.want) {
			t.Errorf("%s: got %v, want %s", name, err, test.want)
		}
		var rows int64
		if err := db.QueryRow(`SELECT (SELECT count(*) FROM a) + (SELECT count(*) FROM b)`).Scan(&rows); err != nil || rows != 0 {
			t.Errorf("after %s: %d rows, %v", name, rows, err)
		}
	}
}

func eachRowOf(db *sql.DB, query string) error {
	rows, err := db.Query(query)
	return eachRow(rows, err, func(row Row) error { return row.Scan(new(any)) })
}

// TestPostgresTransactionWhoseContextEnds leaves no transaction open on the connection.
func TestPostgresTransactionWhoseContextEnds(t *testing.T) {
	eachPostgres(t, postgresTransactionWhoseContextEnds)
}

func postgresTransactionWhoseContextEnds(t *testing.T, db *sql.DB) {
	if _, err := db.Exec(`CREATE TABLE a (n BIGINT)`); err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{`INSERT INTO a VALUES ($1)`, `SELECT pg_sleep($1)`} {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = tx.ExecContext(ctx, statement, 60)
		await.Receive(t, ctx.Done(), "the end of the context")
		if err := tx.Commit(); err == nil {
			t.Errorf("%s: committed", statement)
		}
		cancel()
	}
	var rows int64
	if err := db.QueryRow(`SELECT count(*) FROM a`).Scan(&rows); err != nil || rows != 0 {
		t.Errorf("%d rows, %v", rows, err)
	}
}

// TestPostgresKeepsStatements counts what the server has for the connection after statements that
// run several times.
func TestPostgresKeepsStatements(t *testing.T) { eachPostgres(t, postgresKeepsStatements) }

func postgresKeepsStatements(t *testing.T, db *sql.DB) {
	if _, err := db.Exec(`CREATE TABLE a (n BIGINT)`); err != nil {
		t.Fatal(err)
	}
	statement, err := db.Prepare(`SELECT CAST($1 AS BIGINT) + 1`)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = statement.Close() }()
	for range 3 {
		var next int64
		if err := statement.QueryRow(4).Scan(&next); err != nil || next != 5 {
			t.Errorf("got %d, %v", next, err)
		}
		if result, err := statement.Exec(4); err != nil {
			t.Error(err)
		} else if n, _ := result.RowsAffected(); n != 1 {
			t.Errorf("%d rows", n)
		}
		if _, err := db.Exec(`INSERT INTO a VALUES ($1)`, 1); err != nil {
			t.Error(err)
		}
	}
	var kept, rows, want int64
	if strings.HasSuffix(t.Name(), "cache_statement") {
		want = 3
	}
	err = db.QueryRow(`SELECT count(*), (SELECT count(*) FROM a) FROM pg_prepared_statements`).Scan(&kept, &rows)
	if err != nil || kept != want || rows != 3 {
		t.Errorf("the server keeps %d statements, want %d; %d rows, %v", kept, want, rows, err)
	}
	// The server cannot use the statement any more.
	for change := range strings.SplitSeq(`DEALLOCATE ALL;ALTER TABLE a ALTER n TYPE INTEGER`, ";") {
		read := func() error { return db.QueryRow(`SELECT n FROM a WHERE n > $1`, 0).Scan(new(int64)) }
		if err := read(); err != nil {
			t.Fatal(err)
		}
		if _, err := db.Exec(change); err != nil {
			t.Fatal(err)
		}
		if err := read(); (err != nil) != (want > 0) {
			t.Errorf("after %s: got %v", change, err)
		}
		if err := read(); err != nil {
			t.Errorf("after %s and an error: got %v", change, err)
		}
	}
}
