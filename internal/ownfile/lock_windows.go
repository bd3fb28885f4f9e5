package ownfile

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// noFollow is nothing here: who may make links is an administrator.
const noFollow = 0

func tryLock(f *os.File) error {
	// One byte far behind the end, so that what is in the file can still be read by others.
	at := &windows.Overlapped{Offset: 1 << 30}
	return windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, at)
}

func isHeld(err error) bool {
	return errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING)
}
