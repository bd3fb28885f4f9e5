package atomicfile

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// noFollow is nothing here: only administrators can create links.
const noFollow = 0

func tryLock(f *os.File) error {
	// One byte far behind the end, so that other processes can still read the file.
	at := &windows.Overlapped{Offset: 1 << 30}
	return windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, at)
}

func isHeld(err error) bool {
	return errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING)
}
