package gemini

import (
	"context"
	"time"
)

// A watchdog cancels a call that has been quiet for too long.
type watchdog struct {
	cancel context.CancelCauseFunc
	timer  *time.Timer
	cause  error
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
		w.timer = time.AfterFunc(d, func() { w.cancel(cause) })
	}
}

func (w *watchdog) stop() {
	if w.timer != nil {
		w.timer.Stop()
		w.timer = nil
	}
}
