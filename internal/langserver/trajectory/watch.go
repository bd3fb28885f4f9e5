package trajectory

import (
	"context"
	"errors"
	"sync"
	"time"

	"perigee"
	cortexpb "perigee/gen/exa/cortex_pb"
	jetskicortexpb "perigee/gen/exa/jetski_cortex_pb"
)

// Pauses between two streams. Some servers end a stream after each turn.
const (
	reconnectFirst = time.Second
	reconnectMax   = 8 * time.Second
)

// A watch keeps a stream of updates open. Their steps are not used: they may arrive late, while
// readings are always current.
type watch struct {
	updated chan struct{} // there was an update since the last receive
	done    chan struct{} // closed when the stream is closed

	mu     sync.Mutex
	latest streamState
}

// A streamState is the state from the updates of the current stream.
type streamState struct {
	alive    bool
	status   cortexpb.CascadeRunStatus
	executor *cortexpb.ExecutorMetadata
	children bool
}

func startWatch(ctx context.Context, r Reader, cascade string) *watch {
	w := &watch{updated: make(chan struct{}, 1), done: make(chan struct{})}
	go func() {
		defer close(w.done)
		w.run(ctx, r, cascade)
	}()
	return w
}

func (w *watch) state() streamState {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.latest
}

// observation returns an observation with the state alone.
func (s streamState) observation() *Observation {
	o := &Observation{Status: s.status, Children: s.children}
	if s.executor != nil {
		o.Executors = []*cortexpb.ExecutorMetadata{s.executor}
	}
	return o
}

// run opens streams until ctx ends or the source has none.
func (w *watch) run(ctx context.Context, r Reader, cascade string) {
	for pause := reconnectFirst; ; pause = min(2*pause, reconnectMax) {
		for update, err := range r.Updates(ctx, cascade) {
			if errors.Is(err, errors.ErrUnsupported) {
				return
			}
			if err != nil {
				break
			}
			w.take(update)
			pause = reconnectFirst
		}
		w.mu.Lock()
		w.latest = streamState{}
		w.mu.Unlock()
		w.signal()
		if !perigee.Pause(ctx, pause) {
			return
		}
	}
}

func (w *watch) take(u *jetskicortexpb.AgentStateUpdate) {
	w.mu.Lock()
	w.latest.alive = true
	if status := max(u.GetStatus(), u.GetMainTrajectoryUpdate().GetStatus()); status != 0 {
		w.latest.status = status
	}
	if e := u.GetExecutorMetadata(); e != nil {
		w.latest.executor = e
	}
	w.latest.children = u.GetHasActiveChildren()
	w.mu.Unlock()
	w.signal()
}

func (w *watch) signal() {
	select {
	case w.updated <- struct{}{}:
	default:
	}
}
