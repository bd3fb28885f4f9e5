//go:build !linux && !darwin

package atomicfile

// DiskOf always returns false on this system: a full disk is found when it is written to.
func DiskOf(string) (disk Disk, known bool) { return Disk{}, false }
