//go:build unix

package datadir

import (
	"os"
	"syscall"
)

// Owned reports whether a file belongs to the user of this process.
func Owned(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return !ok || int(stat.Uid) == os.Geteuid()
}

// isLinkedTwice reports whether a file has another name as well, which may be its original one.
func isLinkedTwice(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.Mode().IsRegular() && stat.Nlink > 1
}

// canWrite reports whether files can be created in a directory.
func canWrite(dir string) bool {
	const write, search = 2, 1 // as W_OK and X_OK of access(2)
	return syscall.Access(dir, write|search) == nil
}
