package sqlstore

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"perigee"
)

const (
	moveAway  = "move the file and its -wal and -shm away; perigee starts with an empty one"
	freeSpace = "free some space on that disk"
	makeWrite = "make the file and its directory writable, or choose another data_dir"
)

func (f *sqliteFile) advice(err error) (perigee.Class, string) {
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return perigee.ClassUnavailable, freeSpace
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return perigee.ClassUnavailable, makeWrite
	case isPathError(err):
		return perigee.ClassUnavailable, "check the path, or choose another data_dir"
	}
	switch code(err) & 0xff {
	case sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT:
		return perigee.ClassInternal, moveAway
	case sqlite3.SQLITE_FULL:
		return perigee.ClassUnavailable, freeSpace
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN:
		return perigee.ClassUnavailable, makeWrite
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return perigee.ClassUnavailable, "another process holds the database; try again, or end that process"
	case sqlite3.SQLITE_IOERR:
		return perigee.ClassUnavailable, "check that the disk is sound and not full"
	}
	return perigee.ClassInternal, ""
}

func isPathError(err error) bool {
	_, ok := errors.AsType[*os.PathError](err)
	return ok
}

// code returns SQLite's extended result code, or 0 when the error came from elsewhere.
func code(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code()
	}
	return 0
}

// needsSharedMemory says whether a read failed only because SQLite could not make or write its -shm file.
func needsSharedMemory(err error) bool {
	switch code(err) & 0xff {
	case sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY:
		return true
	}
	return false
}
