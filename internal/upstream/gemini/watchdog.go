package gemini

import (
	"context"
	"sync/atomic"
	"time"
)

// A watchdog cancels a call when the provider has been quiet for too long. While the caller is busy with what it got,
// the provider is not to blame.
type watchdog struct {
	cancel context.CancelCauseFunc
	timer  *time.Timer
	cause  error
	busy   atomic.Bool
}

// watch cancels with cause after d, unless d is 0 or the dog is reset or stopped before.
func watch(cancel context.CancelCauseFunc, d time.Duration, cause error) *watchdog {
	w := &watchdog{cancel: cancel}
	w.reset(d, cause)
	return w
}

// reset starts the wait anew. Each cause has its own limit.
func (w *watchdog) reset(d time.Duration, cause error) {
	if w.timer != nil && w.cause == cause {
		w.timer.Reset(d)
		return
	}
	w.stop()
	w.cause = cause
	if d > 0 {
		w.start(d, cause)
	}
}

func (w *watchdog) start(d time.Duration, cause error) {
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

func (w *watchdog) stop() {
	if w.timer != nil {
		w.timer.Stop()
		w.timer = nil
	}
}
