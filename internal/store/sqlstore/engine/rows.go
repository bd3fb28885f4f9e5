package engine

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"perigee"
)

// ReadTimeout bounds queries, which have a client that waits for the rows.
const ReadTimeout = 4 * time.Second

// A Row is a row of a query's answer.
type Row interface{ Scan(into ...any) error }

// A Queryer is a DB or a Tx.
type Queryer interface {
	// Query calls read for each row.
	Query(ctx context.Context, query string, args []any, read func(row Row) error) error
}

// A Tx is a transaction.
type Tx interface {
	Queryer
	// Exec runs a statement and returns how many rows it changed.
	Exec(ctx context.Context, statement string, args ...any) (changed int64, err error)
	// Each runs a statement for each row of a bulk.
	Each(ctx context.Context, b Bulk) error
}

// A Bulk is a statement for many rows.
type Bulk struct {
	Statement string // has its arguments in order, each once
	Rows      int
	// Args appends the arguments of a row to into.
	Args func(row int, into []any) ([]any, error)
}

// ForEach returns a statement with one argument, for many of them.
func ForEach[T any](statement string, args []T) Bulk {
	return Bulk{statement, len(args), func(i int, into []any) ([]any, error) { return append(into, args[i]), nil }}
}

// bounded runs work that ends when ctx does, and else after limit, because a network can lose a
// query; limit is 0 if it cannot hang.
func bounded(ctx context.Context, limit time.Duration, work func(ctx context.Context) error) error {
	if limit == 0 {
		return work(ctx)
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := work(limited)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return ErrTimeout
	}
	return err
}

// Query runs a query within ReadTimeout.
func (db *DB) Query(ctx context.Context, query string, args []any, read func(row Row) error) error {
	return bounded(ctx, min(ReadTimeout, db.Timeout), func(ctx context.Context) error {
		rows, err := db.Read.QueryContext(ctx, query, db.storable(args)...)
		return eachRow(rows, err, read)
	})
}

// storable returns arguments of which the database takes every text.
func (db *DB) storable(args []any) []any {
	for i, arg := range args {
		if s, ok := arg.(string); ok {
			args[i] = db.Text(s)
		}
	}
	return args
}

// eachRow calls read for each row of a query's result.
func eachRow(rows *sql.Rows, err error, read func(row Row) error) error {
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := read(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// One reads the row of a query that has at most one, and reports whether there was one.
func One(ctx context.Context, q Queryer, query string, args []any, into ...any) (found bool, err error) {
	err = q.Query(ctx, query, args, func(row Row) error {
		found = true
		return row.Scan(into...)
	})
	return found, err
}

// List returns a value for each row of a query. columns are where the columns of a row go.
func List[T any](ctx context.Context, q Queryer, query string, args []any, columns func(value *T) []any) (list []T, err error) {
	err = q.Query(ctx, query, args, func(row Row) error {
		var value T
		err := row.Scan(columns(&value)...)
		list = append(list, value)
		return err
	})
	return list, err
}

// Exec runs a statement and returns how many rows it changed.
func (db *DB) Exec(ctx context.Context, doing, statement string, args ...any) (changed int64, err error) {
	if err := db.Writable(doing); err != nil {
		return 0, err
	}
	defer db.Explain(doing, &err)
	err = bounded(ctx, db.Timeout, func(ctx context.Context) error {
		result, err := db.Write.ExecContext(ctx, statement, db.storable(args)...)
		if err == nil {
			changed, err = result.RowsAffected()
		}
		return err
	})
	return changed, err
}

// yieldTime is how long other writers wait for ExecYielding at most, and some milliseconds more.
const yieldTime = 50 * time.Millisecond

// ExecYielding runs a statement that can take seconds, on an SQLite file. When another writer waits
// for it, it is interrupted and changes nothing: then done is false.
func (db *DB) ExecYielding(ctx context.Context, doing, statement string) (done bool, err error) {
	if err := db.Writable(doing); err != nil {
		return false, err
	}
	defer db.Explain(doing, &err)
	waits := db.Write.Stats().WaitCount
	conn, err := db.Write.Conn(ctx) // the only one
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.Close() }()
	running, interrupt := context.WithCancel(ctx)
	defer interrupt()
	go func() {
		for perigee.Pause(running, yieldTime) {
			if db.Write.Stats().WaitCount > waits {
				interrupt()
			}
		}
	}()
	_, err = conn.ExecContext(running, statement)
	if err != nil && running.Err() != nil && ctx.Err() == nil {
		return false, nil
	}
	return err == nil, err
}

// Work is done in a transaction.
type Work func(ctx context.Context, tx Tx) error

// Transact does work in one transaction: all of it is committed, or nothing. doing describes the
// work in an error, in front of the name of the database.
func (db *DB) Transact(ctx context.Context, doing string, work Work) error {
	return db.transact(ctx, doing, work, false)
}

// TransactDurably is Transact for changes that must survive a power failure once it returns.
func (db *DB) TransactDurably(ctx context.Context, doing string, work Work) error {
	return db.transact(ctx, doing, work, true)
}

func (db *DB) transact(ctx context.Context, doing string, work Work, durable bool) (err error) {
	if err := db.Writable(doing); err != nil {
		return err
	}
	defer db.Explain(doing, &err)
	return bounded(ctx, db.Timeout, func(ctx context.Context) error {
		return db.Driver.Transact(ctx, db.Write, durable, func(tx Tx) error { return work(ctx, tx) })
	})
}

// Lock keeps other transactions that lock the same name waiting until this one ends.
func (db *DB) Lock(ctx context.Context, tx Tx, name string) error {
	if db.lock == "" {
		return nil
	}
	_, err := One(ctx, tx, db.lock, []any{name}, new(bool))
	return err
}

// TryLock is Lock without waiting. It reports whether the transaction has the lock.
func (db *DB) TryLock(ctx context.Context, tx Tx, name string) (locked bool, err error) {
	if db.tryLock == "" {
		return true, nil
	}
	_, err = One(ctx, tx, db.tryLock, []any{name}, &locked)
	return locked, err
}

// A beginner is a *sql.DB or a *sql.Conn.
type beginner interface {
	BeginTx(ctx context.Context, opts *sql.TxOptions) (*sql.Tx, error)
}

func inTransaction(ctx context.Context, db beginner, change func(tx *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after the commit
	if err := change(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// Micros scans a time that is stored in microseconds.
func Micros(t *time.Time) sql.Scanner { return microseconds{t} }

type microseconds struct{ *time.Time }

func (m microseconds) Scan(value any) error {
	n, ok := value.(int64)
	if !ok {
		return fmt.Errorf("a time is stored as %T", value)
	}
	*m.Time = time.UnixMicro(n).UTC()
	return nil
}

// Insert returns a statement that inserts a row with these columns.
func Insert(table, columns string) string {
	return "INSERT INTO " + table + " (" + columns + ") VALUES (" + Places(strings.Count(columns, ",")+1) + ")"
}

// Upsert is Insert that replaces all columns of the row with the same key, where there is one.
func Upsert(table, key, columns string) string {
	return insertOr(table, key, columns, func(column string) string { return "excluded." + column })
}

// AddUp is Insert that adds to all columns of the row with the same key, where there is one.
func AddUp(table, key, columns string) string {
	return insertOr(table, key, columns, func(column string) string { return table + "." + column + " + excluded." + column })
}

// insertOr is Insert that sets the columns beside the key to a value where there is a row with the
// same key.
func insertOr(table, key, columns string, value func(column string) string) string {
	var sets []string
	keys := "," + strings.ReplaceAll(key, " ", "") + ","
	for column := range strings.SplitSeq(columns, ",") {
		if column = strings.TrimSpace(column); !strings.Contains(keys, ","+column+",") {
			sets = append(sets, column+" = "+value(column))
		}
	}
	return Insert(table, columns) + " ON CONFLICT (" + key + ") DO UPDATE SET " + strings.Join(sets, ", ")
}

// Places returns the names of n arguments: $1, $2.
func Places(n int) string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("$%d", i+1)
	}
	return strings.Join(names, ", ")
}
