package trace

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// threadTime returns a clock of the processor time of this thread, to which the goroutine is locked
// until unlock is called. The time at the beginning is not 0.
func threadTime() (now func() time.Duration, unlock func()) {
	runtime.LockOSThread()
	return func() time.Duration {
		var t unix.Timespec
		if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
			return 0
		}
		return time.Duration(t.Nano())
	}, runtime.UnlockOSThread
}
