//go:build !linux && !windows && !darwin && !freebsd

package membudget

// systemMemory returns 0, because the size is unknown.
func systemMemory() int64 { return 0 }
