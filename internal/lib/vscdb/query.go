package vscdb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// The schema of a foreign database is not trusted: its expressions may call no functions that have
// effects, and its pages are checked. None of these pragmas has SQLite read the schema, which is
// limited first.
const defensive = "mode=ro&_pragma=query_only(1)&_pragma=trusted_schema(0)&_pragma=cell_size_check(1)"

// limits are for everything that the database defines and for our own queries. The driver does not
// interrupt SQLite while it parses, so the input of the parser has to be small.
var limits = map[int]int{
	sqlite3.SQLITE_LIMIT_LENGTH:          maxRow,
	sqlite3.SQLITE_LIMIT_SQL_LENGTH:      4096,
	sqlite3.SQLITE_LIMIT_COLUMN:          100,
	sqlite3.SQLITE_LIMIT_EXPR_DEPTH:      50,
	sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 2,
	sqlite3.SQLITE_LIMIT_ATTACHED:        0,
}

var (
	errNoTable = errors.New("it has no table of items")
	errSlow    = fmt.Errorf("it takes longer than %v to read", queryTime)
)

// query reads the values of keys from a copy.
func query(ctx context.Context, path string, keys []string) (map[string][]byte, error) {
	if err := checkSchema(path); err != nil {
		return nil, err
	}
	slashed := filepath.ToSlash(path)
	if !strings.HasPrefix(slashed, "/") {
		slashed = "/" + slashed // C:/… on Windows
	}
	db, err := sql.Open("sqlite", "file://"+(&url.URL{Path: slashed}).EscapedPath()+"?"+defensive)
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }()
	bounded, cancel := context.WithTimeoutCause(ctx, queryTime, errSlow)
	defer cancel()
	values, err := queryValues(bounded, db, keys)
	if err != nil && ctx.Err() == nil && bounded.Err() != nil {
		err = errSlow
	}
	return values, err
}

func queryValues(ctx context.Context, db *sql.DB, keys []string) (map[string][]byte, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	for id, value := range limits {
		if _, err := sqlite.Limit(conn, id, value); err != nil {
			return nil, err
		}
	}
	if err := checkTable(ctx, conn); err != nil {
		return nil, err
	}
	values := map[string][]byte{}
	for _, key := range keys {
		var value []byte
		err := conn.QueryRowContext(ctx, `SELECT iif(length(value) <= $2, value, NULL) FROM main.ItemTable WHERE key = $1`, key, maxValue).Scan(&value)
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		if err != nil {
			return nil, err
		}
		values[key] = value
	}
	return values, nil
}

// checkTable refuses everything but an ordinary table: a view, a virtual table or a generated
// column is a program of its author.
func checkTable(ctx context.Context, conn *sql.Conn) error {
	var all, ordinary int
	err := conn.QueryRowContext(ctx, `SELECT count(*), coalesce(sum(type = 'table' AND rootpage > 0), 0) FROM main.sqlite_schema
		WHERE name = 'ItemTable' COLLATE NOCASE`).Scan(&all, &ordinary)
	if err != nil {
		return errors.Join(errNoTable, err)
	}
	if all != 1 || ordinary != 1 {
		return errNoTable
	}
	rows, err := conn.QueryContext(ctx, `SELECT name, hidden FROM pragma_table_xinfo('ItemTable')`)
	if err != nil {
		return errors.Join(errNoTable, err)
	}
	defer func() { _ = rows.Close() }()
	found := 0
	for rows.Next() {
		var name string
		var hidden int
		if err := rows.Scan(&name, &hidden); err != nil {
			return err
		}
		if hidden != 0 {
			return errors.New("its table of items has columns that are computed")
		}
		if name = strings.ToLower(name); name == "key" || name == "value" {
			found++
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if found != 2 {
		return errNoTable
	}
	return nil
}
