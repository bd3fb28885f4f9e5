package httpapi

import (
	"context"
	"sync"
	"time"

	"perigee"
)

// maxBackground is how many answers are made at once for clients that do not wait for them.
const maxBackground = 64

// maxBackgroundOfKey is how many of them one key may have, where there are keys, so that none takes all places.
const maxBackgroundOfKey = 16

// errCancelled ends an answer that its client does not want any more.
var errCancelled error = perigee.Errorf(perigee.ClassCanceled, "the response was cancelled")

// background keeps account of the answers that can be cancelled by their name. Its zero value is ready.
type background struct {
	mu     sync.Mutex
	runs   map[string]*run
	group  sync.WaitGroup
	closed bool
}

// A run is an answer in the making.
type run struct {
	of     *background
	id     string
	key    string // whose it is
	cancel context.CancelCauseFunc
	done   chan struct{} // closed: what came of it is stored
	once   sync.Once
}

// enter registers a run. The caller calls leave when it is over, and settle before that if it is stored already.
func (b *background) enter(ctx context.Context, id, key string) (context.Context, *run, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, nil, ErrShutdown
	}
	if len(b.runs) >= maxBackground {
		e := perigee.Errorf(perigee.ClassRateLimited, "%d answers are being made in the background already", len(b.runs)).
			WithNext("wait for one of them, or ask without background")
		e.Retry = 10 * time.Second
		return nil, nil, e
	}
	of := 0
	for _, r := range b.runs {
		if r.key == key {
			of++
		}
	}
	if key != "" && of >= maxBackgroundOfKey {
		e := perigee.Errorf(perigee.ClassRateLimited, "%d answers are being made in the background for this key already", of).
			WithNext("wait for one of them, or ask without background")
		e.Retry = 10 * time.Second
		return nil, nil, e
	}
	ctx, cancel := context.WithCancelCause(ctx)
	r := &run{of: b, id: id, key: key, cancel: cancel, done: make(chan struct{})}
	if b.runs == nil {
		b.runs = map[string]*run{}
	}
	b.runs[id] = r
	b.group.Add(1)
	return ctx, r, nil
}

// settle says that what came of the run is stored. Its client may still be being told.
func (r *run) settle() {
	r.once.Do(func() {
		r.of.mu.Lock()
		delete(r.of.runs, r.id)
		r.of.mu.Unlock()
		close(r.done)
	})
}

func (r *run) leave() {
	r.settle()
	r.cancel(nil)
	r.of.group.Done()
}

// find returns the run of a key under an id, or nil.
func (b *background) find(id, key string) *run {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r := b.runs[id]; r != nil && r.key == key {
		return r
	}
	return nil
}

// stop ends a run and waits until what came of it is stored.
func (r *run) stop(ctx context.Context) error {
	r.cancel(errCancelled)
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Finish returns when no answer is being made in the background any more, or when ctx ends before. It comes after
// http.Server.Shutdown and Drain, which see to it that no request begins another one.
func (s *Server) Finish(ctx context.Context) error {
	for {
		running := s.behind.any()
		if running == nil {
			return nil
		}
		select {
		case <-running.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// any returns one of the runs, or nil.
func (b *background) any() *run {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.runs {
		return r
	}
	return nil
}

// Close ends the answers that are being made in the background and over sockets, and waits until that is written down.
// The server takes no more of them.
func (s *Server) Close() {
	if s.idle != nil {
		s.idle.Stop()
	}
	s.failed.close()
	s.sockets.cut()
	s.behind.mu.Lock()
	s.behind.closed = true
	for _, r := range s.behind.runs {
		r.cancel(ErrShutdown)
	}
	s.behind.mu.Unlock()
	s.behind.group.Wait()
}
