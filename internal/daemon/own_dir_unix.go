//go:build unix

package daemon

import (
	"os"
	"syscall"
)

// isOurs says whether a file belongs to who runs this process.
func isOurs(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return !ok || int(stat.Uid) == os.Geteuid()
}

// isLinkedTwice says whether a file has another name somewhere else, which may be its real one.
func isLinkedTwice(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.Mode().IsRegular() && stat.Nlink > 1
}
