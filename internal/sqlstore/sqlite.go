package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"modernc.org/sqlite"

	"perigee"
)

// readers is how many queries run side by side; each has a connection with a page cache of its own.
const readers = 4

// A mode is the part of a connection string that says what the connection may do.
type mode string

const (
	// A writer takes the write lock when its transaction begins: taking it at the first write instead
	// can fail at once, without waiting, when another process wrote in between. The log that WAL
	// leaves behind after a burst is cut back to 16 MiB.
	writing mode = "_txlock=immediate&_pragma=journal_mode(wal)&_pragma=synchronous(normal)" +
		"&_pragma=foreign_keys(1)&_pragma=journal_size_limit(16777216)"
	reading  mode = "_pragma=query_only(1)"
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

// openExisting opens a database without creating it, and returns its schema version (0: it has none).
func openExisting(ctx context.Context, path string) (*sql.DB, int, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, 0, errNoCalls()
	case err != nil:
		return nil, 0, err
	case !info.Mode().IsRegular():
		return nil, 0, &fs.PathError{Op: "open", Path: path, Err: errors.New("not a file")}
	}
	db, version, err := openAs(ctx, path, existing)
	if err == nil || !needsSharedMemory(err) || logHasRows(path) {
		return db, version, err
	}
	// The directory cannot be written to, and nobody has the database open: its log would be there.
	return openAs(ctx, path, immutable)
}

func openAs(ctx context.Context, path string, m mode) (*sql.DB, int, error) {
	db, err := openPool(path, m, readers)
	if err != nil {
		return nil, 0, err
	}
	version, err := versionIfAny(ctx, db)
	if err != nil {
		_ = db.Close()
		return nil, 0, err
	}
	return db, version, nil
}

func logHasRows(path string) bool {
	info, err := os.Stat(path + "-wal")
	return err == nil && info.Size() > 0
}

func versionIfAny(ctx context.Context, db *sql.DB) (int, error) {
	var tables int
	const query = `SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'schema_version'`
	if err := db.QueryRowContext(ctx, query).Scan(&tables); err != nil || tables == 0 {
		return 0, err
	}
	return schemaVersion(ctx, db)
}

// refuseForeign keeps us from adding our tables to the database of another program.
func refuseForeign(ctx context.Context, db *sql.DB, path string) error {
	var all, ours int
	const query = `SELECT count(*), count(CASE WHEN name = 'schema_version' THEN 1 END) FROM sqlite_schema WHERE type = 'table'`
	if err := db.QueryRowContext(ctx, query).Scan(&all, &ours); err != nil {
		return err
	}
	if all > 0 && ours == 0 {
		return perigee.Errorf(perigee.ClassInvalid, "%s is a database of another program", path).
			WithNext("choose another data_dir, or move that file away")
	}
	return nil
}
