package daemon

import (
	"os"

	"golang.org/x/sys/windows"
)

func lockFile(f *os.File) error {
	// One byte far behind the text, so that the process id can still be read by others.
	at := &windows.Overlapped{Offset: 1 << 30}
	return windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, at)
}

// isOurs says whether a file belongs to who runs this process. The directory says that here.
func isOurs(os.FileInfo) bool { return true }
