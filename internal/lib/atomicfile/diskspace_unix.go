//go:build linux || darwin

package atomicfile

import "syscall"

// DiskOf returns the disk that a directory is on. known is false if the directory does not exist.
func DiskOf(dir string) (disk Disk, known bool) {
	var s syscall.Statfs_t
	// Some file systems in user space report no size.
	if syscall.Statfs(dir, &s) != nil || s.Blocks == 0 {
		return Disk{}, false
	}
	return Disk{Free: int64(s.Bavail) * int64(s.Bsize), Files: int64(s.Ffree), HasLimits: s.Files > 0}, true
}
