//go:build !linux && !windows && !darwin && !freebsd

package membudget

// systemMemory says that it is unknown.
func systemMemory() int64 { return 0 }
