//go:build unix

package filetool

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

const (
	errQuota = syscall.EDQUOT
	nonblock = syscall.O_NONBLOCK // a FIFO does not delay its opening
)

// isBusy reports whether a file cannot be opened for writing because it is a program that runs. It
// can still be replaced.
func isBusy(err error) bool { return errors.Is(err, syscall.ETXTBSY) }

// mayHaveLinks reports whether a file has several names.
func mayHaveLinks(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return !ok || stat.Nlink > 1
}

// chown gives a new file the owner and group of an old one, as far as the user may.
func chown(f *os.File, old fs.FileInfo) {
	stat, ok := old.Sys().(*syscall.Stat_t)
	if !ok {
		return
	}
	if f.Chown(int(stat.Uid), int(stat.Gid)) != nil {
		_ = f.Chown(-1, int(stat.Gid))
	}
}
