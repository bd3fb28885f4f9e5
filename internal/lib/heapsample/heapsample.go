// Package heapsample sets how often the runtime samples allocations for heap profiles, in programs
// that import it.
//
// A profile takes for granted that all samples were taken at one rate. This package imports only
// runtime, so it is initialized before packages that allocate much: Go initializes packages in the
// order of their import paths, each as soon as its imports are initialized, and perigee comes before
// reflect, sync and time.
package heapsample

import "runtime"

// Bytes is how many bytes are allocated between two samples on average.
const Bytes = 4 << 20

// byDefault is the rate of the runtime, at which samples take 1.3 % of the CPU of a call.
const byDefault = 512 << 10

func init() {
	if runtime.MemProfileRate == byDefault { // else GODEBUG has set it
		runtime.MemProfileRate = Bytes
		// The first allocation at a new rate is always sampled. This one does not stay in the heap.
		first = new([64]byte)
		runtime.KeepAlive(first)
		first = nil
	}
}

var first *[64]byte
