//go:build linux || darwin

package trace

import "syscall"

// freeSpace is how many bytes may still be written to the disk that a directory is on, if that is known.
func freeSpace(dir string) (bytes int64, known bool) {
	var disk syscall.Statfs_t
	if syscall.Statfs(dir, &disk) != nil {
		return 0, false
	}
	return int64(disk.Bavail) * int64(disk.Bsize), true
}
