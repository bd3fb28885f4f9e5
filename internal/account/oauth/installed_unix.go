//go:build unix

package oauth

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// checkOwner refuses an installation that another user of this machine may have put where the IDE
// usually is.
func checkOwner(info fs.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if ok && stat.Uid != 0 && int(stat.Uid) != os.Geteuid() || info.Mode().Perm()&0o002 != 0 {
		return errors.New("another user owns it or can write to it; name it with --ide or " + InstalledVariable + " if it is yours")
	}
	return nil
}
