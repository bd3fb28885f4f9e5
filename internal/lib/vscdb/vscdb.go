// Package vscdb reads single values from state.vscdb, the SQLite database in which VS Code and its
// descendants keep their state. The editor has it open and assumes that no other program writes to
// it, so it is never opened where it is: a copy is, in a directory that only we can read, and the
// copy is gone when Read returns.
//
// It does not interpret keys and values.
package vscdb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Magic is how the file starts.
const Magic = "SQLite format 3\x00"

// maxSize bounds the database and its log together. The largest that were seen had a few hundred
// megabytes.
const maxSize = 512 << 20

// maxCopied limits the total size of all copies of a database that is being written to.
const maxCopied = 2 * maxSize

// errTooLarge means that a database is refused for its size.
var errTooLarge = fmt.Errorf("it is larger than %d MiB", maxSize>>20)

// maxValue limits a value. The largest one in use, a list of conversations, has a few megabytes.
const maxValue = 16 << 20

// maxRow limits every text, value and row that SQLite makes for a query, whatever the schema is.
const maxRow = 64 << 20

// queryTime bounds the reading of a copy, which takes milliseconds, or a second or two without the
// index of its table.
const queryTime = 30 * time.Second

// tries is how often a copy is made; between two the editor gets time to finish, from firstPause on
// twice as long each time.
const (
	tries      = 6
	firstPause = 25 * time.Millisecond
)

// errMoving means that the database was written to while it was copied.
var errMoving = errors.New("it is being written to")

// Read returns the values of the keys that the database at path has; one of more than 16 MiB is
// nil. The file is not trusted: it is refused for its size before anything is copied, only an
// ordinary table is read, and that is bounded in time and memory. It is copied once, and again only
// if it was written to during the copy.
func Read(ctx context.Context, path string, keys ...string) (values map[string][]byte, err error) {
	pause := firstPause
	copied := int64(0)
	for try := range tries {
		if try > 0 {
			select {
			case <-time.After(pause):
				pause *= 2
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		var size int64
		values, size, err = readOnce(ctx, path, keys)
		if copied += size; !errors.Is(err, errMoving) || copied+size > maxCopied {
			break
		}
	}
	return values, err
}

// readOnce also returns how many bytes it copied.
func readOnce(ctx context.Context, path string, keys []string) (values map[string][]byte, size int64, err error) {
	dir, err := os.MkdirTemp("", "perigee-vscdb-") // 0700
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	to := filepath.Join(dir, "state.vscdb")
	if size, err = copyStill(path, to, copyFile); err != nil {
		return nil, size, err
	}
	values, err = query(ctx, to, keys)
	return values, size, err
}

// copyStill copies a database and its log with copyFile, and checks that neither changed.
func copyStill(path, to string, copyFile func(from, to string, size int64) error) (size int64, err error) {
	before, err := look(path)
	if err != nil {
		return 0, err
	}
	size = before.main.size + before.log.size
	if size > maxSize {
		return 0, errTooLarge
	}
	if before.journal.size > 0 {
		return 0, errMoving // in the middle of a transaction; a journal that stays was left by a crash
	}
	if err := copyFile(path, to, before.main.size); err != nil {
		return size, err
	}
	if before.log.size > 0 {
		if err := copyFile(path+"-wal", to+"-wal", before.log.size); err != nil {
			return size, err
		}
	}
	after, err := look(path)
	if err == nil && after != before {
		err = errMoving
	}
	return size, err
}

// A state changes whenever a database is written to.
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
		if !info.Mode().IsRegular() {
			return s, fmt.Errorf("%s is not a file", filepath.Base(name))
		}
		*of = fileState{info.Size(), info.ModTime()}
	}
	return s, nil
}

// copyFile copies the first size bytes: a file that has grown since is copied again anyway.
func copyFile(from, to string, size int64) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, io.LimitReader(in, size))
	return errors.Join(err, out.Close())
}
