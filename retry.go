package perigee

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// ErrNoAnswer is the cause of an Error about an answer that was generated, and has to be paid for, but is empty or malformed.
var ErrNoAnswer = errors.New("the answer is empty or malformed")

// ErrNotAsked is in the chain of an Error of an upstream that did not ask its provider about the model: none of its accounts can be used.
var ErrNotAsked = errors.New("the provider was not asked")

// A RetryBudget is how often one call may ask again because an answer was empty, malformed or cut: once in all, shared by the
// router and every upstream that it asks. The zero value has that retry left, and nil has none. All methods may be called
// concurrently.
type RetryBudget struct{ taken atomic.Bool }

// Left says whether the retry has not been taken yet.
func (b *RetryBudget) Left() bool { return b != nil && !b.taken.Load() }

// Take takes the retry, and says whether it was left.
func (b *RetryBudget) Take() bool { return b != nil && b.taken.CompareAndSwap(false, true) }

// Pause waits before a retry, and says whether the context lasted as long.
func Pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
