// Package steadyclock has a clock that never goes back. The monotonic clock of a process stops
// while the machine sleeps, and the wall clock can be set back: a timeout would end too late by
// either. A Clock follows the monotonic clock, and the wall clock where that runs ahead.
package steadyclock

import (
	"sync"
	"time"
)

// An Instant is a time on a Clock. Clocks start at Start, so that the zero Instant is long ago.
type Instant = time.Duration

// Start is the first Instant of every Clock.
const Start = 30 * 24 * time.Hour

// jump is the difference between wall clock and monotonic clock that counts as one being moved.
const jump = 100 * time.Millisecond

// A Clock may be used concurrently.
type Clock struct {
	wallClock func() time.Time
	monotonic func() time.Duration

	mu   sync.Mutex
	wall time.Time     // the wall clock at the last jump
	mono time.Duration // the monotonic clock at the last jump
	skew time.Duration // how much the wall clock has jumped ahead
}

// New returns a clock that reads the time of day from now, and elapsed time from the system.
func New(now func() time.Time) *Clock {
	start := time.Now()
	return NewWith(now, func() time.Duration { return time.Since(start) })
}

// NewWith is New with another source of elapsed time, for tests.
func NewWith(now func() time.Time, monotonic func() time.Duration) *Clock {
	return &Clock{wallClock: now, monotonic: monotonic, wall: now().Round(0), mono: monotonic(), skew: Start}
}

// Now returns the present.
func (c *Clock) Now() Instant {
	c.mu.Lock()
	defer c.mu.Unlock()
	mono, wall := c.monotonic(), c.wallClock().Round(0)
	ahead := wall.Sub(c.wall) - (mono - c.mono)
	if ahead > jump {
		c.skew += ahead
	}
	if ahead > jump || ahead < -jump {
		c.wall, c.mono = wall, mono
	}
	return mono + c.skew
}
