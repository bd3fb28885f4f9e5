package trace

import (
	"context"
	"time"
)

// What is left of the budget in tests.
const (
	NothingLeft = -maxDebt
	LittleLeft  = burst / 2
)

// SetBudget sets what is left of the processor time for traces. The share has to be small, so that
// nothing is earned.
func (s *Store) SetBudget(left time.Duration) {
	s.budget.mu.Lock()
	defer s.budget.mu.Unlock()
	s.budget.refill(time.Now())
	s.budget.left, s.budget.sampled, s.budget.sample = left, time.Now(), time.Hour
}

// Unlimit gives a Store with a small share all processor time. The rules for such a Store still
// hold, whatever its writing costs on a slow machine. It is called before the first call.
func (s *Store) Unlimit() {
	s.budget.mu.Lock()
	defer s.budget.mu.Unlock()
	s.budget.share = 1
}

// Queued returns the bytes of memory that wait to be written.
func (s *Store) Queued() int64 { return s.queued.Load() }

// Trim removes the oldest traces in a directory, as a Store does with a limit that may change.
func Trim(dir string, keep func() int64) {
	r, d := ring{max: MaxCalls}, disk{dir: dir}
	defer d.close()
	r.add(list(context.Background(), dir))
	r.trim(&d, keep, func(string, ...any) {})
}
