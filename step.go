package perigee

import (
	"slices"
	"sync"
	"time"
)

// A Step is one try at a call: who was asked, why this one of several, and what came of it.
type Step struct {
	Upstream string        `json:"upstream"`
	Account  string        `json:"account,omitempty"`
	Why      string        `json:"why,omitempty"`   // why this one was chosen
	Class    Class         `json:"class,omitempty"` // of what went wrong; empty: it answered
	Error    string        `json:"error,omitempty"`
	Took     time.Duration `json:"took_ns"`
}

// Steps gathers what was tried for one call, for those who ask later why it went as it did. All methods may be called
// concurrently, and of nil, which keeps nothing.
type Steps struct {
	mu   sync.Mutex
	list []Step
}

// maxSteps is how many are kept: a call that tries more than that repeats itself.
const maxSteps = 50

// Add takes a step.
func (s *Steps) Add(step Step) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.list) < maxSteps {
		s.list = append(s.list, step)
	}
}

// Len is how many steps there are so far.
func (s *Steps) Len() int {
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.list)
}

// All returns the steps so far, in order.
func (s *Steps) All() []Step {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.list)
}
