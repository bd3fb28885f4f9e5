package seal

import (
	"os"

	"golang.org/x/sys/windows"
)

func lockFile(f *os.File) error {
	at := &windows.Overlapped{Offset: 1 << 30} // behind the end, where it keeps nobody from reading
	return windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, at)
}
