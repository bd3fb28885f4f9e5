package engine

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

// Advice classifies an error of the file or of SQLite.
func (f *sqliteFile) Advice(err error) (perigee.Class, string) {
	_, path := errors.AsType[*os.PathError](err)
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return perigee.ClassUnavailable, freeSpace
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return perigee.ClassUnavailable, makeWrite
	case path:
		return perigee.ClassUnavailable, "check the path, or choose another data_dir"
	}
	if isDamage(err) {
		return perigee.ClassInternal, moveAway
	}
	switch code(err) & 0xff {
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

// isDamage reports whether an error means that an SQLite file is damaged, or is not an SQLite file.
func isDamage(err error) bool {
	kind := code(err) & 0xff
	return kind == sqlite3.SQLITE_NOTADB || kind == sqlite3.SQLITE_CORRUPT || errors.Is(err, ErrDamaged)
}

// code returns SQLite's extended result code, or 0 when the error came from elsewhere.
func code(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code()
	}
	return 0
}

// needsSharedMemory reports whether a read failed only because SQLite could not make or write its
// -shm file.
func needsSharedMemory(err error) bool {
	switch code(err) & 0xff {
	case sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY:
		return true
	}
	return false
}
