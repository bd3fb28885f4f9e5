package roster

import (
	"slices"
	"sync"
	"time"

	"perigee/internal/account/pool"
)

// A queue hands stops to a function in the order in which they were added, outside the calls that
// add them. A stop that is equal to a waiting one is dropped. A goroutine runs only while there are
// stops.
type queue struct {
	handle func(pool.Stop)

	mu      sync.Mutex
	waiting []pool.Stop
	busy    bool // waiting stops are being handled
	closed  bool
	running sync.WaitGroup
}

// add queues a stop. After close it is handled before add returns: calls may outlive the roster.
func (q *queue) add(stop pool.Stop) {
	q.mu.Lock()
	if !slices.Contains(q.waiting, stop) {
		q.waiting = append(q.waiting, stop)
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

func (q *queue) run() {
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

// close waits until the waiting stops are handled, at most for closeTime.
func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	done := make(chan struct{})
	go func() { q.running.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(closeTime):
	}
}
