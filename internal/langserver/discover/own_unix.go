//go:build unix

package discover

import (
	"os"
	"syscall"
)

// isOwn reports whether a file, or a process by its directory, belongs to this user.
func isOwn(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}
