package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"perigee"
)

// An engine is what SQLite and PostgreSQL do each in their own way.
type engine interface {
	name() string // of the database, for a person; without a password
	shared() bool // with other processes that do the same

	openReader(ctx context.Context) (*sql.DB, error) // changes nothing
	openWriter(reader *sql.DB) (*sql.DB, error)      // may be the reader
	openReadOnly(ctx context.Context) (db *sql.DB, version int, err error)
	// openAll opens what reading will need, as far as it may not be possible later.
	openAll(ctx context.Context, reader *sql.DB) error
	close() error // what openReader and openWriter did not return

	// tables says how many tables there are where ours would be, and whether they are ours.
	tables(ctx context.Context, db *sql.DB) (all int, ours bool, err error)
	elsewhere() string // what to do when they are another program's
	// alone keeps others from changing the schema until the transaction ends.
	alone(ctx context.Context, tx *sql.Tx) error

	// durably runs change in a transaction that has reached the disk when it returns.
	durably(ctx context.Context, db *sql.DB, change func(tx *sql.Tx) error) error
	// inBulk runs work in a transaction that is quick with many rows.
	inBulk(ctx context.Context, db *sql.DB, work func(tx bulkTx) error) error
	// savedCalls is a query for calls by id, of which it has a list in its one argument; it keeps other transactions from
	// changing these calls.
	savedCalls() (query string, list func(ids []string) (any, error))
	// turn keeps other transactions that name the same thing waiting until this one ends. With try it does not wait, and says
	// whether it is this one's turn.
	turn(ctx context.Context, tx bulkTx, name string, try bool) (ours bool, err error)
	skipLocked() string // behind a query: lock its rows, and leave those out that another transaction has locked
	// lease waits until nobody else refreshes an account, and keeps others from it until release is called; nil: there are no
	// others.
	lease(ctx context.Context, upstream, email string) (release func(), err error)
	// patience bounds work that is not bounded otherwise; 0: it cannot hang.
	patience() time.Duration

	// sizes says how much the database takes, in all and for each table with its indexes.
	sizes(ctx context.Context, db *sql.DB) (report perigee.StoreReport, tables map[string]int64, err error)
	// compact returns free space to the file system. Online it keeps no call waiting for long.
	compact(ctx context.Context, db *sql.DB, online bool) (note string, err error)

	text(s string) string // what of a text can be kept
	bytewise() string     // behind an expression: compare it as bytes
	advice(err error) (class perigee.Class, next string)
}

// A bulkTx is a transaction for many rows.
type bulkTx interface {
	// query has each row of the answer read.
	query(ctx context.Context, statement string, args []any, read func(row scanner) error) error
	// each runs a statement for each row of a bulk.
	each(ctx context.Context, b bulk) error
}

// A scanner is a row of an answer.
type scanner interface{ Scan(into ...any) error }

// A bulk is a statement for many rows.
type bulk struct {
	statement string // has its arguments in order, each once
	rows      int
	// args gives the arguments of a row, in the memory of into.
	args func(row int, into []any) ([]any, error)
}

// once is a statement for a single row.
func once(statement string, args ...any) bulk {
	return bulk{statement: statement, rows: 1, args: func(_ int, into []any) ([]any, error) { return append(into, args...), nil }}
}

func chooseEngine(opts Options) (engine, error) {
	if !opts.URL.IsZero() {
		return newPostgres(opts)
	}
	return &sqliteFile{path: opts.Path, rewriteOnline: rewriteOnline}, nil
}

// errNoAnswer says that the database was given up, and not by who asked.
var errNoAnswer = errors.New("the database did not answer in time")

// readPatience bounds queries, which have a client that waits for the rows.
const readPatience = 4 * time.Second

// bounded runs work that ends when ctx does, and else after the engine's patience: a network can swallow a question.
func (s *Store) bounded(ctx context.Context, work func(ctx context.Context) error) error {
	return s.boundedBy(ctx, s.engine.patience(), work)
}

// boundedRead is bounded for queries.
func (s *Store) boundedRead(ctx context.Context, work func(ctx context.Context) error) error {
	return s.boundedBy(ctx, min(readPatience, s.engine.patience()), work)
}

// boundedBy runs work that ends when ctx does, and else after patience; 0: it cannot hang.
func (s *Store) boundedBy(ctx context.Context, patience time.Duration, work func(ctx context.Context) error) error {
	if patience == 0 {
		return work(ctx)
	}
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := work(limited)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return errNoAnswer
	}
	return err
}

// transact runs change in a transaction.
func (s *Store) transact(ctx context.Context, change func(ctx context.Context, tx *sql.Tx) error) error {
	return s.bounded(ctx, func(ctx context.Context) error {
		return inTransaction(ctx, s.write, func(tx *sql.Tx) error { return change(ctx, tx) })
	})
}

// one runs a query that has one row, or none: sql.ErrNoRows.
func (s *Store) one(ctx context.Context, query string, args []any, into ...any) error {
	return s.boundedRead(ctx, func(ctx context.Context) error { return s.read.QueryRowContext(ctx, query, args...).Scan(into...) })
}

// each runs a query and has each of its rows read.
func (s *Store) each(ctx context.Context, query string, args []any, read func(rows *sql.Rows) error) error {
	return s.boundedRead(ctx, func(ctx context.Context) error {
		rows, err := s.read.QueryContext(ctx, query, args...)
		return eachRow(rows, err, read)
	})
}

// eachRow takes what a query returned.
func eachRow(rows *sql.Rows, err error, read func(rows *sql.Rows) error) error {
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

// execute runs a statement and returns how many rows it changed.
func (s *Store) execute(ctx context.Context, statement string, args ...any) (changed int64, err error) {
	err = s.bounded(ctx, func(ctx context.Context) error {
		result, err := s.write.ExecContext(ctx, statement, args...)
		if err == nil {
			changed, err = result.RowsAffected()
		}
		return err
	})
	return changed, err
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

// inBulk runs work in one transaction: all of it is kept, or nothing.
func (s *Store) inBulk(ctx context.Context, work func(ctx context.Context, tx bulkTx) error) error {
	return s.bounded(ctx, func(ctx context.Context) error {
		return s.engine.inBulk(ctx, s.write, func(tx bulkTx) error { return work(ctx, tx) })
	})
}
