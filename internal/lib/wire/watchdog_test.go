package wire

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// A timer that has just fired when the watchdog is stopped or gets another limit must not start
// again: it would hold the call for ever, or end it with the wrong cause.
func TestStoppedWatchdogStaysStopped(t *testing.T) {
	for name, end := range map[string]func(w *Watchdog){
		"stopped":  (*Watchdog).Stop,
		"replaced": func(w *Watchdog) { w.Reset(time.Hour, ErrIdle) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, w := Watch(t.Context(), time.Minute)
				defer w.Stop()
				fired := w.timer
				w.Busy(true)
				end(w)
				w.fire(1, time.Minute, ErrFirstByte) // as if it had fired just before
				if fired.Stop() {
					t.Error("the timer runs again")
				}
				w.Busy(false)
				w.fire(1, time.Minute, ErrFirstByte)
				if context.Cause(ctx) == ErrFirstByte {
					t.Error("the call ended with a limit that no longer applies")
				}
			})
		})
	}
}

// A caller that is at work is waited for, however long that takes, and then the wait begins anew.
func TestWatchdogWaitsForABusyCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, w := Watch(t.Context(), time.Minute)
		defer w.Stop()
		w.Busy(true)
		time.Sleep(90 * time.Second)
		w.Busy(false)
		began := time.Now()
		<-ctx.Done() // in a bubble
		if took := time.Since(began); context.Cause(ctx) != ErrFirstByte || took != 30*time.Second {
			t.Errorf("%v after %v", context.Cause(ctx), took)
		}
	})
}
