package atomicfile

// A Disk describes the disk that a directory is on.
type Disk struct {
	Free      int64 // bytes that this user may still write
	Files     int64 // files that may still be created; meaningful if HasLimits
	HasLimits bool  // the filesystem limits the number of files
}

// Free returns how many bytes this user may still write to the disk that a directory is on. They
// are known on Linux and macOS, for directories that exist.
func Free(dir string) (bytes int64, known bool) {
	disk, known := DiskOf(dir)
	return disk.Free, known
}
