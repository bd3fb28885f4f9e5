package wire

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// Why a watchdog cancels.
var (
	ErrFirstByte = errors.New("no answer within limits.first_byte")
	ErrIdle      = errors.New("no sign of life within limits.idle")
)

// A Watchdog cancels a call when the provider has been quiet for too long. The time in which the
// caller handles an event does not count.
type Watchdog struct {
	cancel context.CancelCauseFunc
	busy   atomic.Bool

	mu     sync.Mutex
	timer  *time.Timer // nil if it does not wait
	timers int         // how many there were
	cause  error
}

// Watch returns a context for a call, and a watchdog that cancels it with ErrFirstByte after
// firstByte, unless that is 0 or the watchdog is reset before. The caller stops the watchdog, which
// ends the context.
func Watch(ctx context.Context, firstByte time.Duration) (context.Context, *Watchdog) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &Watchdog{cancel: cancel}
	w.Reset(firstByte, ErrFirstByte)
	return ctx, w
}

// Busy sets whether the caller handles an event. The provider may be quiet for as long.
func (w *Watchdog) Busy(busy bool) { w.busy.Store(busy) }

// Reset starts the wait anew. Each cause has its own limit.
func (w *Watchdog) Reset(d time.Duration, cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer != nil && w.cause == cause {
		w.timer.Reset(d)
		return
	}
	w.rest()
	w.cause = cause
	if d > 0 {
		w.start(d, cause)
	}
}

// Again starts the wait anew if it is the wait for this cause, and does nothing otherwise.
func (w *Watchdog) Again(d time.Duration, cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer != nil && w.cause == cause {
		w.timer.Reset(d)
	}
}

// start starts a timer. The caller holds the lock.
func (w *Watchdog) start(d time.Duration, cause error) {
	w.timers++
	number := w.timers
	w.timer = time.AfterFunc(d, func() { w.fire(number, d, cause) })
}

// fire ends the wait of the timer with a number. A timer that was stopped or replaced since does
// nothing.
func (w *Watchdog) fire(number int, d time.Duration, cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.timer == nil || w.timers != number:
	case w.busy.Load():
		w.timer.Reset(d)
	default:
		w.cancel(cause)
	}
}

// Stop ends the wait and the context.
func (w *Watchdog) Stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rest()
	w.cancel(nil)
}

// rest stops the timer. The caller holds the lock.
func (w *Watchdog) rest() {
	if w.timer != nil {
		w.timer.Stop()
		w.timer = nil
	}
}
