package responsesapi

import (
	"context"
	"sync"
	"time"

	"perigee"
)

// maxRuns is how many answers are made at once for clients that do not wait for them.
const maxRuns = 64

// maxRunsOfKey is how many of them one key may have, where there are keys, so that none takes all
// places.
const maxRunsOfKey = 16

// ErrCancelled ends an answer that its client does not want any more.
var ErrCancelled error = perigee.Errorf(perigee.ClassCanceled, "the response was cancelled")

// Runs are the answers in the background, which can be cancelled by their id. The zero value is
// ready.
type Runs struct {
	mu     sync.Mutex
	runs   map[string]*Run
	group  sync.WaitGroup
	closed error // why no new runs are accepted; nil if they are
}

// A Run is an answer in the making.
type Run struct {
	of     *Runs
	id     string
	key    string // the name of the key that it belongs to
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when the result is stored
	once   sync.Once
}

// Begin registers a run of a key. The caller calls End when it is over, and MarkStored before that
// if it is stored already.
func (b *Runs) Begin(ctx context.Context, id, key string) (context.Context, *Run, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed != nil {
		return nil, nil, b.closed
	}
	ofKey := 0
	for _, r := range b.runs {
		if r.key == key {
			ofKey++
		}
	}
	var e *perigee.Error
	switch {
	case len(b.runs) >= maxRuns:
		e = perigee.Errorf(perigee.ClassRateLimited, "%d answers are being made in the background already", len(b.runs))
	case key != "" && ofKey >= maxRunsOfKey:
		e = perigee.Errorf(perigee.ClassRateLimited, "%d answers are being made in the background for this key already", ofKey)
	}
	if e != nil {
		e = e.WithHint("wait for one of them, or ask without background")
		e.Retry = 10 * time.Second
		return nil, nil, e
	}
	ctx, cancel := context.WithCancelCause(ctx)
	r := &Run{of: b, id: id, key: key, cancel: cancel, done: make(chan struct{})}
	if b.runs == nil {
		b.runs = map[string]*Run{}
	}
	b.runs[id] = r
	b.group.Add(1)
	return ctx, r, nil
}

// MarkStored records that the result of the run is stored. Its client may still be reading it.
func (r *Run) MarkStored() {
	r.once.Do(func() {
		r.of.mu.Lock()
		delete(r.of.runs, r.id)
		r.of.mu.Unlock()
		close(r.done)
	})
}

// End ends the run.
func (r *Run) End() {
	r.MarkStored()
	r.cancel(nil)
	r.of.group.Done()
}

// stop cancels a run and waits until its result is stored.
func (r *Run) stop(ctx context.Context) error {
	r.cancel(ErrCancelled)
	return r.wait(ctx)
}

func (r *Run) wait(ctx context.Context) error {
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Find returns the run of a key under an id, or nil.
func (b *Runs) Find(id, key string) *Run {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r := b.runs[id]; r != nil && r.key == key {
		return r
	}
	return nil
}

// Wait returns when no run is left, or when ctx ends before.
func (b *Runs) Wait(ctx context.Context) error {
	for {
		running := b.any()
		if running == nil {
			return nil
		}
		if err := running.wait(ctx); err != nil {
			return err
		}
	}
}

// any returns one of the runs, or nil.
func (b *Runs) any() *Run {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.runs {
		return r
	}
	return nil
}

// Close cancels all runs with a cause and waits until they have ended. No runs can be started after
// it.
func (b *Runs) Close(cause error) {
	b.mu.Lock()
	b.closed = cause
	for _, r := range b.runs {
		r.cancel(cause)
	}
	b.mu.Unlock()
	b.group.Wait()
}
