package engine

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"perigee"
	"perigee/internal/lib/lazyregexp"
)

// A sqliteFile is a database in a file.
//
// It has one writer at a time. Queueing for the one connection of the writing pool is fair and
// immediate, where waiting for the file lock would be polling.
type sqliteFile struct {
	path string
	db   *DB
}

// newSQLite returns a database that is not open. A writing transaction is alone from its beginning,
// so there is nothing to lock.
func newSQLite(opts Options) *DB {
	f := &sqliteFile{path: opts.Path}
	f.db = &DB{Driver: f, Dialect: Dialect{
		Name:   opts.Path,
		Text:   func(s string) string { return s },
		Listed: `SELECT value FROM json_each($1)`,

		tables:      `SELECT count(*), count(CASE WHEN name = 'schema_version' THEN 1 END) > 0 FROM sqlite_schema WHERE type = 'table'`,
		elsewhere:   "choose another data_dir, or move that file away",
		lockUpgrade: f.lockUpgrade,
		backUp:      f.backUp,

		warm: readers,
	}}
	return f.db
}

// Open opens the file, and creates it unless it may only be read.
func (f *sqliteFile) Open(ctx context.Context, readOnly bool) (read, write *sql.DB, err error) {
	if readOnly {
		read, err = f.openExisting(ctx)
		return read, nil, err
	}
	if err := prepareFiles(f.path); err != nil {
		return nil, nil, err
	}
	if read, err = openPool(f.path, reading, readers); err == nil {
		write, err = openPool(f.path, writing, 1)
	}
	return read, write, err
}

// switchTime is how long a process waits for one that is making the same file.
const switchTime = 5 * time.Second

// switchToWAL opens the writing connection, which switches a new file to WAL. SQLite does not wait
// for a process that does so at the same moment but reports at once that the file is busy. A
// lasting error is returned by the first statement. On PostgreSQL it only connects.
func switchToWAL(ctx context.Context, write *sql.DB) {
	for begun := time.Now(); time.Since(begun) < switchTime; {
		err := write.PingContext(ctx)
		if code(err)&0xff != sqlite3.SQLITE_BUSY || !perigee.Pause(ctx, 20*time.Millisecond) {
			return
		}
	}
}

// readers is how many queries run side by side; each has a connection with a page cache of its own.
const readers = 4

// A mode is the part of a connection string with the permissions of the connection.
type mode string

const (
	// A writer takes the write lock when its transaction begins: taking it at the first write
	// instead can fail at once, without waiting, when another process wrote in between. The log
	// that WAL leaves behind after a burst is cut back to 16 MiB. In a file that is made now, free
	// pages can be returned a few at a time (see compact); for one that exists already the setting
	// does nothing.
	writing mode = "_txlock=immediate&_pragma=auto_vacuum(incremental)&_pragma=journal_mode(wal)&_pragma=synchronous(normal)" +
		"&_pragma=foreign_keys(1)&_pragma=journal_size_limit(16777216)&_pragma=cache_size(-512)"
	// The system has read pages in its own cache, so each connection keeps few: half a MiB, not
	// two.
	reading  mode = "_pragma=query_only(1)&_pragma=cache_size(-512)"
	existing mode = "mode=ro&_pragma=query_only(1)"
	// Immutable means no locks and no log: the one way to read where SQLite cannot make its -shm
	// file.
	immutable mode = "mode=ro&immutable=1&_pragma=query_only(1)"
)

// busyTimeout is for other processes that write; our own writers queue before they get here.
const busyTimeout = "&_pragma=busy_timeout(5000)"

func openPool(path string, m mode, size int) (*sql.DB, error) {
	name, err := fileURI(path)
	if err != nil {
		return nil, err
	}
	connector, err := sqlite.NewConnector(name + "?" + string(m) + busyTimeout)
	if err != nil {
		return nil, fmt.Errorf("connection string: %w", err)
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(size)
	db.SetMaxIdleConns(size)
	return db, nil
}

// fileURI writes a path the way SQLite reads it in a connection string: a path may have ? # and %
// in it.
func fileURI(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	slashed := filepath.ToSlash(abs)
	if !strings.HasPrefix(slashed, "/") {
		slashed = "/" + slashed // C:/… on Windows
	}
	return "file://" + (&url.URL{Path: slashed}).EscapedPath(), nil
}

// prepareFiles makes the directory and the file, so that it is ours alone from its first moment;
// SQLite gives -wal and -shm the mode of the file they belong to. An older file that other users
// can read becomes private.
func prepareFiles(path string) error {
	if path == "" {
		return perigee.Errorf(perigee.ClassInvalid, "the database has no path")
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		info, err := os.Stat(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o077 == 0 {
			continue
		}
		if err := os.Chmod(name, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// openExisting opens a file without creating it.
func (f *sqliteFile) openExisting(ctx context.Context) (*sql.DB, error) {
	info, err := os.Stat(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, errNoDatabase()
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, &fs.PathError{Op: "open", Path: f.path, Err: errors.New("not a file")}
	}
	db, err := openPool(f.path, existing, readers)
	if err != nil {
		return nil, err
	}
	var tables int
	err = db.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_schema`).Scan(&tables)
	if err == nil || !needsSharedMemory(err) || f.logHasRows() {
		return db, err
	}
	_ = db.Close()
	// The directory cannot be written to, and the database is not open elsewhere: its log would be
	// there.
	return openPool(f.path, immutable, readers)
}

func (f *sqliteFile) logHasRows() bool {
	info, err := os.Stat(f.path + "-wal")
	return err == nil && info.Size() > 0
}

// The writing connection leaves it to checkpoints to sync the log: enough for calls, and faster.
const (
	syncAtCommit     = `PRAGMA synchronous = FULL`
	syncAtCheckpoint = `PRAGMA synchronous = NORMAL`
)

// Transact runs work on the one connection that writes.
func (f *sqliteFile) Transact(ctx context.Context, db *sql.DB, durable bool, work func(tx Tx) error) error {
	change := func(tx *sql.Tx) error { return work(sqliteTx{tx, f.db}) }
	if durable {
		return transactSynced(ctx, db, change)
	}
	return inTransaction(ctx, db, change)
}

// transactSynced runs change in a transaction with a commit that syncs the log. The setting cannot
// change inside a transaction, hence the connection that is held around it.
func transactSynced(ctx context.Context, db *sql.DB, change func(tx *sql.Tx) error) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.ExecContext(ctx, syncAtCommit); err != nil {
		return err
	}
	defer restore(ctx, conn, syncAtCheckpoint)
	return inTransaction(ctx, conn, change)
}

// restore resets a setting of a connection to its previous value.
func restore(ctx context.Context, conn *sql.Conn, setting string) {
	if _, err := conn.ExecContext(context.WithoutCancel(ctx), setting); err != nil {
		// The pool drops this connection, and the next one has its own settings.
		_ = conn.Raw(func(any) error { return driver.ErrBadConn })
	}
}

// placeholders are names to SQLite, and the driver looks up the name of each for each row, unless
// it has none.
var placeholders = lazyregexp.New(`\$\d+`)

type sqliteTx struct {
	*sql.Tx
	db *DB
}

// hot returns a statement if it is prepared, and otherwise nil.
func (tx sqliteTx) hot(ctx context.Context, statement string) *sql.Stmt {
	if hot := tx.db.hot.Load(); hot != nil && (*hot)[statement] != nil {
		return tx.StmtContext(ctx, (*hot)[statement])
	}
	return nil
}

// Query leaves ctx out where the statement is hot: where a context can end, the driver starts a
// goroutine to wait for it. The transaction has its lock and such a statement does not wait.
func (tx sqliteTx) Query(ctx context.Context, statement string, args []any, read func(row Row) error) error {
	if hot := tx.hot(ctx, statement); hot != nil {
		rows, err := hot.QueryContext(context.WithoutCancel(ctx), args...)
		return eachRow(rows, err, read)
	}
	rows, err := tx.QueryContext(ctx, statement, args...)
	return eachRow(rows, err, read)
}

func (tx sqliteTx) Exec(ctx context.Context, statement string, args ...any) (changed int64, err error) {
	var result sql.Result
	if hot := tx.hot(ctx, statement); hot != nil {
		result, err = hot.ExecContext(context.WithoutCancel(ctx), args...)
	} else {
		result, err = tx.ExecContext(ctx, statement, args...)
	}
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// Each prepares the statement once: SQLite would otherwise read it again for each row. It looks at
// ctx between two rows.
func (tx sqliteTx) Each(ctx context.Context, b Bulk) (err error) {
	if b.Rows == 0 {
		return nil
	}
	statement := tx.hot(ctx, b.Statement)
	if statement == nil {
		if statement, err = tx.PrepareContext(ctx, placeholders().ReplaceAllString(b.Statement, "?")); err != nil {
			return err
		}
	}
	defer func() { _ = statement.Close() }()
	var args []any
	for i := range b.Rows {
		if args, err = b.Args(i, args[:0]); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, err := statement.ExecContext(context.WithoutCancel(ctx), args...); err != nil {
			return err
		}
	}
	return nil
}
