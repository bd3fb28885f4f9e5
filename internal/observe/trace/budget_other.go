//go:build !linux

package trace

import "time"

// threadTime returns a clock of elapsed time: on systems without the processor time of a thread,
// waiting for the disk counts as well.
func threadTime() (now func() time.Duration, unlock func()) {
	began := time.Now()
	return func() time.Duration { return time.Since(began) }, func() {}
}
