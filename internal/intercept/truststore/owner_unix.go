//go:build unix

package truststore

import (
	"os"
	"syscall"
)

// keepOwner gives a file that root wrote to the owner of its directory, because that user could not
// read it otherwise.
func keepOwner(dir, path string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	uid, gid, err := ownerOf(dir)
	if err != nil || uid == 0 {
		return err
	}
	return os.Lchown(path, uid, gid)
}

func ownerOf(path string) (uid, gid int, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, 0, err
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(stat.Uid), int(stat.Gid), nil
	}
	return 0, 0, nil
}

// ForeignTo returns the user ID of the owner of a directory, if root runs perigee and the directory
// belongs to another user: files that root makes there could not be read by that user.
func ForeignTo(dir string) (uid int, foreign bool) {
	if os.Geteuid() != 0 {
		return 0, false
	}
	uid, _, err := ownerOf(dir)
	return uid, err == nil && uid != 0
}
