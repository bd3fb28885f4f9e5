package trace

import (
	"sync"
	"time"
)

// A budget bounds the processor time of the writing goroutine: over time a share of what the
// process itself uses and an eighth of that share of one processor, and burst at once.
type budget struct {
	share  float64
	sample time.Duration // a call of at most sampleSize is written after this time, whatever is left

	mu      sync.Mutex
	at      time.Time     // of left; zero before the first use
	used    time.Duration // the processor time of the process at that time
	left    time.Duration // from -maxDebt to burst
	charged time.Duration // the clock of the writing goroutine at the last charge
	sampled time.Time     // when a call was last begun
}

// A stage is how much of the budget is left.
type stage int

const (
	stageSpent  stage = iota // calls that succeed are not written
	stageLow                 // calls that are over are written as one file
	stagePlenty              // calls are written as directories of files, from their beginning
)

const (
	defaultShare = 0.02
	burst        = 100 * time.Millisecond // of processor time that is available after a pause
	maxDebt      = burst / 10             // so that a large call that fails is soon forgotten
	refillPause  = 5 * time.Millisecond   // between two looks at the processor time of the process

	// samplePause is the default of budget.sample. With one call in this time, each of them has a
	// trace, also after a large one that has used up the budget.
	samplePause = 200 * time.Millisecond
	sampleSize  = 4 << 20 // bytes of all bodies: requests of about 2 MB and their answers
)

// stage returns the stage for a call with so many bytes.
func (b *budget) stage(size int64) stage {
	if b.share >= 1 {
		return stagePlenty
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.refill(now)
	switch {
	case b.left > burst/2, size <= sampleSize && now.Sub(b.sampled) >= b.sample:
		return stagePlenty
	case b.left > 0:
		return stageLow
	}
	return stageSpent
}

// begin notes that a call is written for the first time.
func (b *budget) begin() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sampled = time.Now()
}

// refill adds what was earned since the last time.
func (b *budget) refill(now time.Time) {
	passed := now.Sub(b.at)
	if !b.at.IsZero() && passed < refillPause {
		return
	}
	used := processTime()
	if b.at.IsZero() {
		b.left = burst
	} else {
		earned := time.Duration(b.share * float64(passed/8+used-b.used))
		b.left = min(burst, b.left+earned)
	}
	b.at, b.used = now, used
}

// charge subtracts the processor time that the writing goroutine has used since the last call. now
// is its clock.
func (b *budget) charge(now time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refill(time.Now())
	b.left = max(-maxDebt, b.left-(now-b.charged))
	b.charged = now
}
