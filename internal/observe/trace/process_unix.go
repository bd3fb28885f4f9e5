//go:build unix

package trace

import (
	"time"

	"golang.org/x/sys/unix"
)

// processTime returns the processor time that the process has used.
func processTime() time.Duration {
	var used unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &used) != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
