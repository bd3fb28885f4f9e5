//go:build linux || darwin

package doctor

import "syscall"

// diskOf reads the disk that a directory is on.
func diskOf(dir string) (Disk, bool) {
	var disk syscall.Statfs_t
	if err := syscall.Statfs(dir, &disk); err != nil {
		return Disk{}, false
	}
	return Disk{Free: int64(disk.Bavail) * int64(disk.Bsize), Files: int64(disk.Ffree), HasLimits: disk.Files > 0}, true
}
