package trace

import (
	"io/fs"
	"syscall"
)

// spaceOf returns the bytes of the blocks that a file or directory has on the disk, as du does.
func spaceOf(info fs.FileInfo) int64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return stat.Blocks * 512
	}
	return onDisk(info.Size())
}
