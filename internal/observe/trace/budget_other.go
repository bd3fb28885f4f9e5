//go:build !linux

package trace

import "time"

// threadTime returns a function that tells the time: systems that do not tell the processor time of
// a thread count waiting for the disk as well.
func threadTime() (now func() time.Duration, unlock func()) {
	began := time.Now()
	return func() time.Duration { return time.Since(began) }, func() {}
}
