package responsesapi

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/coder/websocket"

	"perigee"
	"perigee/internal/dialect/openai/responses"
	"perigee/internal/server/reqbody"
)

// Limits of one socket. The first two are the API's.
const (
	maxAnswers = 16 // being made
	maxStreams = 32 // with names
	maxWaiting = 32 // for their turn
)

// A queue orders the requests of a socket: within a stream, one answer follows the other; streams
// do not wait for each other as long as there are free slots. Requests without a stream form a
// stream of their own.
type queue struct {
	mu      sync.Mutex
	waiting []*responses.Message // in the order of arrival
	bytes   int                  // of the waiting requests
	busy    map[string]bool      // streams with an answer in the making
	names   map[string]bool      // all streams so far
	end     *closeReason         // if it is not nil, no request is started
}

// A closeReason is how a socket is closed: after the answers that are being made, with an error for
// requests that come meanwhile.
type closeReason struct {
	err    *perigee.Error // nil means the error of the hub
	code   websocket.StatusCode
	reason string
}

var (
	tooOld       = closeReason{err: responses.ErrSocketTooOld, code: websocket.StatusNormalClosure, reason: "open another socket"}
	shuttingDown = closeReason{code: websocket.StatusGoingAway, reason: "perigee is shutting down"}
)

// add adds a request, or returns why it is refused.
func (q *queue) add(r *responses.Message, maxBytes int64, stopping *perigee.Error) *perigee.Error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.end != nil {
		return cmp.Or(q.end.err, stopping)
	}
	if r.Stream != "" && !q.names[r.Stream] {
		if len(q.names) >= maxStreams {
			return responses.ErrTooManyStreams
		}
		if q.names == nil {
			q.names = map[string]bool{}
		}
		q.names[r.Stream] = true
	}
	if len(q.waiting) >= maxWaiting || len(q.waiting) > 0 && int64(q.bytes+len(r.Body)) > maxBytes {
		e := perigee.Errorf(perigee.ClassRateLimited, "%d requests are waiting on this socket already", len(q.waiting)).
			WithHint("wait for an answer before you send more")
		e.Retry = time.Second
		return e
	}
	q.waiting = append(q.waiting, r)
	q.bytes += len(r.Body)
	return nil
}

// next removes and returns the first request that may run, or nil if there is none.
func (q *queue) next() *responses.Message {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.end != nil || len(q.busy) >= maxAnswers {
		return nil
	}
	i := slices.IndexFunc(q.waiting, func(r *responses.Message) bool { return !q.busy[r.Stream] })
	if i < 0 {
		return nil
	}
	r := q.waiting[i]
	q.waiting = slices.Delete(q.waiting, i, i+1)
	q.bytes -= len(r.Body)
	if q.busy == nil {
		q.busy = map[string]bool{}
	}
	q.busy[r.Stream] = true
	return r
}

// done records that an answer has ended.
func (q *queue) done(r *responses.Message) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.busy, r.Stream)
}

// close prevents further requests from starting, and returns the waiting ones. Only the first
// reason is kept.
func (q *queue) close(f closeReason) []*responses.Message {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.end == nil {
		q.end = &f
	}
	left := q.waiting
	q.waiting, q.bytes = nil, 0
	return left
}

// closed returns how the socket is to be closed, once nothing is being made any more.
func (q *queue) closed() (closeReason, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.end == nil || len(q.busy) > 0 {
		return closeReason{}, false
	}
	return *q.end, true
}

// take answers a message, at once or when its turn comes.
func (s *Socket) take(message []byte) {
	r, err := responses.DecodeMessage(message)
	if s.valid(err == nil) {
		if e := s.queue.add(r, s.hub.Settings().MaxWaiting, s.hub.Stopping); e != nil {
			err = e
		}
	}
	if err != nil {
		s.opening.Reject(s, r.Stream, err)
		s.lease.Shrink(int64(len(message)))
		reqbody.Release(message)
		return
	}
	s.advance()
}

// advance starts the requests that may run.
func (s *Socket) advance() {
	for r := s.queue.next(); r != nil; r = s.queue.next() {
		s.group.Go(func() {
			s.opening.Answer(s, r)
			s.queue.done(r)
			s.advance()
			select {
			case s.idle <- struct{}{}:
			default: // watch has not looked since the last one
			}
		})
	}
}
