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
