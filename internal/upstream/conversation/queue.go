package conversation

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"perigee"
)

// retryLater is the Retry-After time for clients that the queue has no place for.
const retryLater = 5 * time.Second

// A queue admits a number of calls at once. Further calls wait, first come first served.
type queue struct {
	depth   int64
	timeout time.Duration

	places  chan struct{} // has a value for each call that is admitted
	waiting atomic.Int64  // number of calls that wait
}

func newQueue(concurrency, depth int, timeout time.Duration) *queue {
	return &queue{places: make(chan struct{}, concurrency), depth: int64(depth), timeout: timeout}
}

// enter waits for a place. The caller must call leave once to release it.
func (q *queue) enter(ctx context.Context) (leave func(), err error) {
	select {
	case q.places <- struct{}{}: // no call waits: a place that becomes free goes to the first one
		return q.leave, nil
	default:
	}
	defer q.waiting.Add(-1)
	if q.waiting.Add(1) > q.depth {
		return nil, &perigee.Error{Class: perigee.ClassCapacity, Status: http.StatusServiceUnavailable, Retry: retryLater,
			Message: "the language server is busy, and its queue is full", Hint: "try again later, or raise concurrency or queue.depth of this upstream"}
	}
	var expired <-chan time.Time // never, if there is no timeout
	if q.timeout > 0 {
		expired = time.After(q.timeout)
	}
	select {
	case q.places <- struct{}{}:
		return q.leave, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-expired:
		return nil, &perigee.Error{Class: perigee.ClassUnavailable, Status: http.StatusRequestTimeout, Retry: retryLater,
			Message: "the call waited too long for the language server, which is busy",
			Hint:    "try again later, or raise concurrency or queue.timeout of this upstream"}
	}
}

// leave admits the call that has waited longest.
func (q *queue) leave() { <-q.places }
