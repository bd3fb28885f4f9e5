package wire

import (
	"context"
	"errors"
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
	timer  *time.Timer
	cause  error
	busy   atomic.Bool
}

// Watch returns a context for a call, and a watchdog that cancels it with ErrFirstByte after firstByte, unless that is 0 or the
// watchdog is reset before. The caller stops the watchdog, which ends the context.
func Watch(ctx context.Context, firstByte time.Duration) (context.Context, *Watchdog) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &Watchdog{cancel: cancel}
	w.Reset(firstByte, ErrFirstByte)
	return ctx, w
}

// Busy says whether the caller is at work, and the provider may be quiet for as long.
func (w *Watchdog) Busy(busy bool) { w.busy.Store(busy) }

// Reset starts the wait anew. Each cause has its own limit.
func (w *Watchdog) Reset(d time.Duration, cause error) {
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

func (w *Watchdog) start(d time.Duration, cause error) {
	timer := make(chan *time.Timer, 1) // the function may run before AfterFunc has returned
	t := time.AfterFunc(d, func() {
		if !w.busy.Load() {
			w.cancel(cause)
			return
		}
		t := <-timer
		timer <- t
		t.Reset(d)
	})
	timer <- t
	w.timer = t
}

// Stop ends the wait and the context.
func (w *Watchdog) Stop() {
	w.rest()
	w.cancel(nil)
}

func (w *Watchdog) rest() {
	if w.timer != nil {
		w.timer.Stop()
		w.timer = nil
	}
}
