package perigeetest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Epoch is when every Clock starts.
var Epoch = time.Date(2026, time.March, 14, 9, 26, 53, 0, time.UTC)

// A Clock does not move until Advance is called. Its zero value shows Epoch. It may be used
// concurrently.
type Clock struct {
	mu     sync.Mutex
	passed time.Duration
}

// Now is what the clock shows.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Epoch.Add(c.passed)
}

// Advance moves the clock.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.passed += d
}

// IDs gives out call-0001, call-0002 and so on, so that ids sort in the order they were given. It
// may be used concurrently.
type IDs struct{ last atomic.Int64 }

// New returns the next id.
func (i *IDs) New() string { return fmt.Sprintf("call-%04d", i.last.Add(1)) }
