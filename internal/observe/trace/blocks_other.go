//go:build !linux

package trace

import "io/fs"

// spaceOf returns the size of a file or directory, rounded up to whole blocks.
func spaceOf(info fs.FileInfo) int64 { return onDisk(max(info.Size(), 1)) }
