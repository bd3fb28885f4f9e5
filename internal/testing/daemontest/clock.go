package daemontest

import (
	"sync"
	"time"
)

// A Clock is set by the test.
type Clock struct {
	mu sync.Mutex
	At time.Time // what it shows first
}

// Now is the time that it shows.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.At
}

// Advance moves it on.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.At = c.At.Add(d)
}
