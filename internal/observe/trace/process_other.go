//go:build !unix

package trace

import (
	"runtime"
	"time"
)

var started = time.Now()

// processTime returns half of the time of all processors: the processor time of the process is not
// known.
func processTime() time.Duration {
	return time.Since(started) / 2 * time.Duration(runtime.GOMAXPROCS(0))
}
