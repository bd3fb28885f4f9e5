package conversation

import (
	"container/list"
	"context"
	"net/http"
	"sync"
	"time"

	"perigee"
)

// retryLater is the Retry-After time for clients that the queue has no place for.
const retryLater = 5 * time.Second

// A queue admits a number of calls at once. Further calls wait, first come first served.
type queue struct {
	depth   int
	timeout time.Duration

	mu      sync.Mutex
	free    int
	waiting list.List // of chan struct{}, closed when the call is admitted
}

func newQueue(concurrency, depth int, timeout time.Duration) *queue {
	return &queue{free: concurrency, depth: depth, timeout: timeout}
}

// enter waits for a place. The caller must call leave once to release it.
func (q *queue) enter(ctx context.Context) (leave func(), err error) {
	q.mu.Lock()
	if q.free > 0 { // no call waits
		q.free--
		q.mu.Unlock()
		return q.leave, nil
	}
	if q.waiting.Len() >= q.depth {
		q.mu.Unlock()
		return nil, &perigee.Error{Class: perigee.ClassCapacity, Status: http.StatusServiceUnavailable, Retry: retryLater,
			Message: "the language server is busy, and its queue is full", Hint: "try again later, or raise concurrency or queue.depth of this upstream"}
	}
	admitted := make(chan struct{})
	place := q.waiting.PushBack(admitted)
	q.mu.Unlock()

	var expired <-chan time.Time
	if q.timeout > 0 {
		timer := time.NewTimer(q.timeout)
		defer timer.Stop()
		expired = timer.C
	}
	select {
	case <-admitted:
		return q.leave, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-expired:
		err = &perigee.Error{Class: perigee.ClassUnavailable, Status: http.StatusRequestTimeout, Retry: retryLater,
			Message: "the call waited too long for the language server, which is busy",
			Hint:    "try again later, or raise concurrency or queue.timeout of this upstream"}
	}
	q.mu.Lock()
	select {
	case <-admitted: // admitted at the same moment
		q.mu.Unlock()
		q.leave()
	default:
		q.waiting.Remove(place)
		q.mu.Unlock()
	}
	return nil, err
}

// leave admits the call that has waited longest.
func (q *queue) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if first := q.waiting.Front(); first != nil {
		close(q.waiting.Remove(first).(chan struct{}))
		return
	}
	q.free++
}
