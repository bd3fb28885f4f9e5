//go:build linux || darwin

package engine

import "syscall"

// freeSpaceOf is how many bytes may still be written to the disk that a directory is on, if that is known.
func freeSpaceOf(dir string) (bytes int64, known bool) {
	var disk syscall.Statfs_t
	if err := syscall.Statfs(dir, &disk); err != nil {
		return 0, false
	}
	return int64(disk.Bavail) * int64(disk.Bsize), true
}
