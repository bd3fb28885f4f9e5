package ask

import (
	"context"
	"errors"
	"sync"
	"time"

	"perigee"
)

// A limited is the context of an ask with its time limits. It ends with the cause ErrTimeout.
type limited struct {
	context.Context
	cancel context.CancelCauseFunc
	idle   time.Duration // 0 if progress does not extend the time

	mu    sync.Mutex
	timer *time.Timer
	end   time.Time // the latest end
	last  Progress
}

// limit bounds an ask: by its own total, or by the time without progress and a total.
func (s *Service) limit(ctx context.Context, total time.Duration) (*limited, func()) {
	l := &limited{}
	l.Context, l.cancel = context.WithCancelCause(ctx)
	first := total
	if total == 0 {
		total, l.idle = s.opts.Max(), s.opts.Idle()
		first = min(l.idle, total)
	}
	l.end = time.Now().Add(total)
	l.timer = time.AfterFunc(first, func() { l.cancel(ErrTimeout) })
	return l, func() {
		l.timer.Stop()
		l.cancel(context.Canceled)
	}
}

// progress reports whether p differs from the last progress, and extends the time of the ask if it
// does.
func (l *limited) progress(p Progress) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p == l.last {
		return false
	}
	l.last = p
	if l.idle > 0 && l.timer.Stop() {
		l.timer.Reset(min(l.idle, time.Until(l.end)))
	}
	return true
}

// explain returns the error of an ask with a prompt that was not handed over. If the ask is out of
// time, the error is about that.
func (l *limited) explain(err error) error {
	if errors.Is(context.Cause(l), ErrTimeout) && l.Err() != nil {
		e := perigee.Errorf(perigee.ClassUnavailable, "the ask was out of time before the prompt was handed over: %s", perigee.AsError(err).Message).
			WithHint("ask again with a longer timeout_seconds")
		e.Cause = errors.Join(ErrTimeout, err)
		return e
	}
	return err
}
