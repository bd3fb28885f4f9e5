package trace

import (
	"runtime"
	"sync"
	"time"
)

// A budget bounds the processor time that traces take: a share of all processors over time, and
// burst at once. Calls that begin when it is used up are not traced, so that tracing never costs a
// busy gateway more than the share.
type budget struct {
	share float64

	mu      sync.Mutex
	at      time.Time     // of left; zero before the first use
	left    time.Duration // may be negative
	charged time.Duration // the clock of the writing goroutine at the last charge
}

// copying is the processor time for copying a megabyte in the goroutine of a call, about.
const copying = 150 * time.Microsecond

// available reports whether a call may be traced.
func (b *budget) available() bool {
	if b.share >= 1 {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refill()
	return b.left > 0
}

// refill adds the share of the time that has passed.
func (b *budget) refill() {
	now := time.Now()
	if b.at.IsZero() {
		b.at, b.left = now, burst
	}
	earned := time.Duration(float64(now.Sub(b.at)) * b.share * float64(runtime.GOMAXPROCS(0)))
	b.at, b.left = now, min(burst, b.left+earned)
}

// charge subtracts the processor time that the writing goroutine has used since the last call. now
// is its clock.
func (b *budget) charge(now time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refill()
	b.left -= now - b.charged
	b.charged = now
}

// chargeCopy subtracts the cost of copying bytes.
func (b *budget) chargeCopy(bytes int) {
	if b.share >= 1 || bytes < 16<<10 {
		return // less than the time that it takes to count it
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left -= copying * time.Duration(bytes) >> 20
}
