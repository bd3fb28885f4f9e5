package filetool

import (
	"io/fs"
	"os"
	"syscall"
)

const (
	errQuota = syscall.Errno(1295) // ERROR_DISK_QUOTA_EXCEEDED
	nonblock = 0
)

func isBusy(error) bool { return false }

// mayHaveLinks reports whether a file may have several names. The number is not in its FileInfo
// here.
func mayHaveLinks(fs.FileInfo) bool { return true }

func chown(*os.File, fs.FileInfo) {}
