//go:build darwin || freebsd

package membudget

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// systemMemory is how much memory the machine has; 0 if unknown.
func systemMemory() int64 {
	name := "hw.physmem"
	if runtime.GOOS == "darwin" {
		name = "hw.memsize"
	}
	total, err := unix.SysctlUint64(name)
	if err != nil {
		return 0
	}
	return int64(total)
}
