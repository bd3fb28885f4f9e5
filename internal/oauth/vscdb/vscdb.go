// Package vscdb reads single values from state.vscdb, the SQLite database in which VS Code and its descendants keep their
// state. The editor has it open and believes that nobody else writes to it, so it is never opened where it is: a copy
// is, in a directory that only we can read, and the copy is gone when Read returns.
//
// It knows keys and values and nothing of what they mean. The import of accounts calls it.
package vscdb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	_ "modernc.org/sqlite" // the driver called sqlite
)

// Magic is how the file starts.
const Magic = "SQLite format 3\x00"

// maxSize bounds what is copied. The largest databases that were seen had a few hundred megabytes.
const maxSize = 2 << 30

// maxValue bounds a value. Those that are asked for have a few kilobytes.
const maxValue = 16 << 20

// tries is how often a copy is made; between two the editor gets time to finish, from firstPause on twice as long each time.
const (
	tries      = 6
	firstPause = 25 * time.Millisecond
)

// errMoving says that the database was written to while it was copied.
var errMoving = errors.New("it is being written to")

// Read returns the values of those of the keys that the database at path has.
func Read(ctx context.Context, path string, keys ...string) (values map[string][]byte, err error) {
	pause := firstPause
	for try := range tries {
		if try > 0 {
			select {
			case <-time.After(pause):
				pause *= 2
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		values, err = readOnce(ctx, path, keys)
		if err == nil || ctx.Err() != nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			break
		}
	}
	return values, err
}

func readOnce(ctx context.Context, path string, keys []string) (map[string][]byte, error) {
	dir, err := os.MkdirTemp("", "perigee-vscdb-") // 0700
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	copied := filepath.Join(dir, "state.vscdb")
	if err := copyStill(path, copied, copyFile); err != nil {
		return nil, err
	}
	return query(ctx, copied, keys)
}

// copyStill copies a database and its log of one moment, by means of copyFile.
func copyStill(path, to string, copyFile func(from, to string) error) error {
	before, err := look(path)
	if err != nil {
		return err
	}
	if before.main.size > maxSize || before.log.size > maxSize {
		return fmt.Errorf("it is larger than %d bytes", int64(maxSize))
	}
	if before.journal.size > 0 {
		return errMoving // in the middle of a transaction; a journal that stays was left by a crash
	}
	if err := copyFile(path, to); err != nil {
		return err
	}
	if before.log.size > 0 {
		if err := copyFile(path+"-wal", to+"-wal"); err != nil {
			return err
		}
	}
	after, err := look(path)
	if err == nil && after != before {
		err = errMoving
	}
	return err
}

// A state is what shows that a database was written to.
type state struct{ main, log, journal fileState }

type fileState struct {
	size    int64
	changed time.Time
}

func look(path string) (s state, err error) {
	for name, of := range map[string]*fileState{path: &s.main, path + "-wal": &s.log, path + "-journal": &s.journal} {
		info, err := os.Stat(name)
		if errors.Is(err, fs.ErrNotExist) && name != path {
			continue
		}
		if err != nil {
			return s, err
		}
		*of = fileState{info.Size(), info.ModTime()}
	}
	return s, nil
}

func copyFile(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

func query(ctx context.Context, path string, keys []string) (values map[string][]byte, err error) {
	slashed := filepath.ToSlash(path)
	if !strings.HasPrefix(slashed, "/") {
		slashed = "/" + slashed // C:/… on Windows
	}
	db, err := sql.Open("sqlite", "file://"+(&url.URL{Path: slashed}).EscapedPath()+"?mode=ro&_pragma=query_only(1)")
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }()
	// A view may go on for ever, and a value may be larger than memory.
	var kind string
	err = db.QueryRowContext(ctx, `SELECT type FROM sqlite_schema WHERE name = 'ItemTable'`).Scan(&kind)
	if err != nil || kind != "table" {
		return nil, errors.Join(errors.New("it has no table of items"), err)
	}
	values = map[string][]byte{}
	for _, key := range keys {
		var value []byte
		err := db.QueryRowContext(ctx, `SELECT value FROM ItemTable WHERE key = $1 AND length(value) <= $2`, key, maxValue).Scan(&value)
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
