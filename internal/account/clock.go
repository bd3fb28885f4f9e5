package account

import "time"

// An instant is a time on the pool's own clock. Zero is long ago.
type instant = time.Duration

// longAgo lies between instant zero and the start of a pool, so that what never happened is old.
const longAgo = 30 * 24 * time.Hour

// clockJump is from when on a difference between wall clock and monotonic clock is taken for a jump.
const clockJump = 100 * time.Millisecond

// A clock never goes back: it follows the monotonic clock, and the wall clock where that runs ahead. The one stands still
// while a machine sleeps, the other can be set back, and in neither case is an account to rest for longer than it has to.
type clock struct {
	now     func() time.Time
	elapsed func() time.Duration // monotonic

	wall time.Time     // both clocks at the last jump
	mono time.Duration // …
	skew time.Duration // how much the wall clock has jumped ahead
}

func newClock(now func() time.Time) clock {
	start := time.Now()
	return clock{now: now, elapsed: func() time.Duration { return time.Since(start) }, wall: now().Round(0), skew: longAgo}
}

// read is the present. The pool's lock is held.
func (c *clock) read() instant {
	mono, wall := c.elapsed(), c.now().Round(0)
	ahead := wall.Sub(c.wall) - (mono - c.mono)
	if ahead > clockJump {
		c.skew += ahead
	}
	if ahead > clockJump || ahead < -clockJump {
		c.wall, c.mono = wall, mono
	}
	return mono + c.skew
}

// date is an instant on the wall clock, for people and stores.
func (c *clock) date(at, now instant) time.Time { return c.now().Round(0).Add(at - now) }

// An event is something that becomes due: the end of a rest, or of what is known about a quota. By then it may no longer
// be true, so who handles it looks at the member again.
type event struct {
	at     instant
	member *member
	lane   *lane  // nil: the whole account
	model  string // empty: all models of the lane
	lacks  bool   // it is about the models that the account does not have
}

// events is a heap with the earliest on top.
type events []event

func (h *events) push(e event) {
	*h = append(*h, e)
	s := *h
	for i := len(s) - 1; i > 0; {
		parent := (i - 1) / 2
		if s[parent].at <= s[i].at {
			break
		}
		s[parent], s[i] = s[i], s[parent]
		i = parent
	}
}

func (h *events) pop() event {
	s := *h
	top, last := s[0], len(s)-1
	s[0], s[last] = s[last], event{}
	s = s[:last]
	*h = s
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < last; child++ {
			if s[child].at < s[least].at {
				least = child
			}
		}
		if least == i {
			return top
		}
		s[i], s[least] = s[least], s[i]
		i = least
	}
}
