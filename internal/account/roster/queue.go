package roster

import (
	"slices"
	"sync"
	"time"
)

// A queue hands items to a function in the order in which they were added, outside the calls that
// add them. An item that is equal to a waiting one is dropped. A goroutine runs only while there
// are items.
type queue[T comparable] struct {
	handle func(T)

	mu      sync.Mutex
	waiting []T
	busy    bool // waiting items are being handled
	closed  bool
	running sync.WaitGroup
}

// add queues an item. After close it is handled before add returns: calls may outlive the roster.
func (q *queue[T]) add(item T) {
	q.mu.Lock()
	if !slices.Contains(q.waiting, item) {
		q.waiting = append(q.waiting, item)
	}
	inline := q.closed && !q.busy
	if !q.busy && !inline {
		q.running.Go(q.run)
	}
	q.busy = true
	q.mu.Unlock()
	if inline {
		q.run()
	}
}

func (q *queue[T]) run() {
	for {
		q.mu.Lock()
		if len(q.waiting) == 0 {
			q.busy = false
			q.mu.Unlock()
			return
		}
		next := q.waiting[0]
		q.waiting = q.waiting[1:]
		q.mu.Unlock()
		q.handle(next)
	}
}

// drop removes the waiting items.
func (q *queue[T]) drop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = nil
}

// close waits until the waiting items are handled, at most for the given time.
func (q *queue[T]) close(patience time.Duration) {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	done := make(chan struct{})
	go func() { q.running.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(patience):
	}
}
