//go:build !linux && !darwin

package doctor

// diskOf is known on Linux and macOS only.
func diskOf(string) (Disk, bool) { return Disk{}, false }
