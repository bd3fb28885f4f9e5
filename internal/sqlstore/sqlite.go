package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"modernc.org/sqlite"

	"perigee"
)

// A sqliteFile is a database in a file.
//
// It has one writer at a time. Queueing for the one connection of the writing pool is fair and immediate, where waiting
// for the file lock would be polling.
type sqliteFile struct {
	path string
	hot  hotStatements
	// rewriteOnline is how much a database may have to be rewritten while calls are answered.
	rewriteOnline int64
}

func (f *sqliteFile) name() string            { return f.path }
func (f *sqliteFile) shared() bool            { return false }
func (f *sqliteFile) close() error            { return nil }
func (f *sqliteFile) elsewhere() string       { return "choose another data_dir, or move that file away" }
func (f *sqliteFile) patience() time.Duration { return 0 }
func (f *sqliteFile) text(s string) string    { return s }
func (f *sqliteFile) bytewise() string        { return "" }
func (f *sqliteFile) skipLocked() string      { return "" }

// lease has nothing to do: the one process that has the file open sees to it by itself.
func (f *sqliteFile) lease(context.Context, string, string) (release func(), err error) {
	return nil, nil
}

// alone has nothing to do: a writing transaction is alone from its beginning.
func (f *sqliteFile) alone(context.Context, *sql.Tx) error { return nil }

func (f *sqliteFile) openReader(context.Context) (*sql.DB, error) {
	if err := prepareFiles(f.path); err != nil {
		return nil, err
	}
	return openPool(f.path, reading, readers)
}

// openAll opens all connections of the reading pool, which keeps them, with the file and the log of each. Opened when a query
// needs it, a connection can fail for want of a file descriptor; one that gets the file and not the log sees an old
// database, or an empty one: "no such table".
func (f *sqliteFile) openAll(ctx context.Context, reader *sql.DB) error {
	for range readers {
		conn, err := reader.Conn(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }() // all at the end: each has to be another one
		if _, err := schemaVersion(ctx, conn); err != nil {
			return err
		}
	}
	return nil
}

func (f *sqliteFile) openWriter(*sql.DB) (*sql.DB, error) { return openPool(f.path, writing, 1) }

// readers is how many queries run side by side; each has a connection with a page cache of its own.
const readers = 4

// A mode is the part of a connection string that says what the connection may do.
type mode string

const (
	// A writer takes the write lock when its transaction begins: taking it at the first write instead
	// can fail at once, without waiting, when another process wrote in between. The log that WAL
	// leaves behind after a burst is cut back to 16 MiB. In a file that is made now, free pages can be returned
	// a few at a time (see compact); for one that exists already the setting does nothing.
	writing mode = "_txlock=immediate&_pragma=auto_vacuum(incremental)&_pragma=journal_mode(wal)&_pragma=synchronous(normal)" +
		"&_pragma=foreign_keys(1)&_pragma=journal_size_limit(16777216)&_pragma=cache_size(-512)"
	// The system has read pages in its own cache, so each connection keeps few: half a MiB, not two.
	reading  mode = "_pragma=query_only(1)&_pragma=cache_size(-512)"
	existing mode = "mode=ro&_pragma=query_only(1)"
	// Immutable means no locks and no log: the one way to read where SQLite cannot make its -shm file.
	immutable mode = "mode=ro&immutable=1&_pragma=query_only(1)"
)

// waiting is for other processes that write; our own writers queue before they get here.
const waiting = "&_pragma=busy_timeout(5000)"

func openPool(path string, m mode, size int) (*sql.DB, error) {
	name, err := fileURI(path)
	if err != nil {
		return nil, err
	}
	connector, err := sqlite.NewConnector(name + "?" + string(m) + waiting)
	if err != nil {
		return nil, fmt.Errorf("connection string: %w", err)
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(size)
	db.SetMaxIdleConns(size)
	return db, nil
}

// fileURI writes a path the way SQLite reads it in a connection string: a path may have ? # and % in it.
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

// prepareFiles makes the directory and the file, so that it is ours alone from its first moment; SQLite
// gives -wal and -shm the mode of the file they belong to. An older file that others can read is closed to them.
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

// openReadOnly opens a database without creating it, and returns its schema version (0: it has none).
func (f *sqliteFile) openReadOnly(ctx context.Context) (*sql.DB, int, error) {
	info, err := os.Stat(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, 0, errNoCalls()
	case err != nil:
		return nil, 0, err
	case !info.Mode().IsRegular():
		return nil, 0, &fs.PathError{Op: "open", Path: f.path, Err: errors.New("not a file")}
	}
	db, version, err := f.openAs(ctx, existing)
	if err == nil || !needsSharedMemory(err) || f.logHasRows() {
		return db, version, err
	}
	// The directory cannot be written to, and nobody has the database open: its log would be there.
	return f.openAs(ctx, immutable)
}

func (f *sqliteFile) openAs(ctx context.Context, m mode) (*sql.DB, int, error) {
	db, err := openPool(f.path, m, readers)
	if err != nil {
		return nil, 0, err
	}
	version, err := versionIfAny(ctx, db, f)
	if err != nil {
		_ = db.Close()
		return nil, 0, err
	}
	return db, version, nil
}

func (f *sqliteFile) logHasRows() bool {
	info, err := os.Stat(f.path + "-wal")
	return err == nil && info.Size() > 0
}

func (f *sqliteFile) tables(ctx context.Context, db *sql.DB) (all int, ours bool, err error) {
	const query = `SELECT count(*), count(CASE WHEN name = 'schema_version' THEN 1 END) > 0 FROM sqlite_schema WHERE type = 'table'`
	err = db.QueryRowContext(ctx, query).Scan(&all, &ours)
	return all, ours, err
}

// The writing connection leaves it to checkpoints to sync the log: enough for calls, and faster.
const (
	syncAtCommit     = `PRAGMA synchronous = FULL`
	syncAtCheckpoint = `PRAGMA synchronous = NORMAL`
)

// durably runs change in a transaction whose commit syncs the log. The setting cannot change inside a transaction, hence
// the connection that is held around it.
func (f *sqliteFile) durably(ctx context.Context, db *sql.DB, change func(tx *sql.Tx) error) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.ExecContext(ctx, syncAtCommit); err != nil {
		return err
	}
	defer func() {
		if _, err := conn.ExecContext(context.WithoutCancel(ctx), syncAtCheckpoint); err != nil {
			_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // the next one has its own settings
		}
	}()
	return inTransaction(ctx, conn, change)
}

// placeholders are names to SQLite, and the driver looks up the name of each for each row, unless it has none.
var placeholders = regexp.MustCompile(`\$\d+`)

func (f *sqliteFile) inBulk(ctx context.Context, db *sql.DB, work func(tx bulkTx) error) error {
	if err := f.hot.prepare(ctx, db); err != nil {
		return err
	}
	return inTransaction(ctx, db, func(tx *sql.Tx) error { return work(sqliteTx{tx, f}) })
}

type sqliteTx struct {
	*sql.Tx
	file *sqliteFile
}

// statement prepares a statement for the transaction, unless that is done already.
func (tx sqliteTx) statement(ctx context.Context, statement string) (*sql.Stmt, error) {
	if hot := tx.file.hot.find(statement); hot != nil {
		return tx.StmtContext(ctx, hot), nil
	}
	return tx.PrepareContext(ctx, placeholders.ReplaceAllString(statement, "?"))
}

func (tx sqliteTx) query(ctx context.Context, statement string, args []any, read func(row scanner) error) error {
	if hot := tx.file.hot.find(statement); hot != nil {
		rows, err := tx.StmtContext(ctx, hot).QueryContext(context.WithoutCancel(ctx), args...)
		return eachRow(rows, err, func(rows *sql.Rows) error { return read(rows) })
	}
	rows, err := tx.QueryContext(ctx, statement, args...)
	return eachRow(rows, err, func(rows *sql.Rows) error { return read(rows) })
}

// each prepares the statement once: SQLite would otherwise read it again for each row.
func (tx sqliteTx) each(ctx context.Context, b bulk) error {
	if b.rows == 0 {
		return nil
	}
	statement, err := tx.statement(ctx, b.statement)
	if err != nil {
		return err
	}
	defer func() { _ = statement.Close() }()
	// Where a context can end, the driver starts a goroutine for each row to wait for it. The transaction has its lock
	// and no row waits, so looking between two of them is enough.
	row := context.WithoutCancel(ctx)
	var args []any
	for i := range b.rows {
		if args, err = b.args(i, args[:0]); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, err := statement.ExecContext(row, args...); err != nil {
			return err
		}
	}
	return nil
}

// savedCalls needs no lock: a writing transaction is alone.
func (f *sqliteFile) savedCalls() (query string, list func(ids []string) (any, error)) {
	return `SELECT id, counted, ` + callSums + ` FROM calls WHERE id IN (SELECT value FROM json_each($1))`, func(ids []string) (any, error) {
		text, err := json.Marshal(ids)
		return string(text), err
	}
}

// turn has nothing to do, for the same reason.
func (f *sqliteFile) turn(context.Context, bulkTx, string, bool) (ours bool, err error) {
	return true, nil
}
