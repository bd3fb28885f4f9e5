//go:build unix

package oauth

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// openAtOnce keeps opening from waiting for whoever is at the other end.
const openAtOnce = syscall.O_NONBLOCK

// isForeign says why an installation is not to be believed that nobody has named: somebody else on this machine may have
// put it there.
func isForeign(info fs.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case ok && stat.Uid != 0 && int(stat.Uid) != os.Geteuid():
		return errors.New("it belongs to another user; name it with --ide or " + InstalledVariable + " if it is yours")
	case info.Mode().Perm()&0o002 != 0:
		return errors.New("everybody can write to it; name it with --ide or " + InstalledVariable + " if it is yours")
	}
	return nil
}
