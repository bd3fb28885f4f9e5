package responsesapi

import (
	"cmp"
	"container/list"
	"sync"

	"perigee"
	"perigee/internal/server/membudget"
)

// maxRecent is how many bytes of answers are remembered for all open sockets together, or an eighth
// of limits.memory where that is less. If an answer was dropped, its client gets a not-found error
// and sends the whole conversation again.
const maxRecent = 256 << 20

// recentAnswers remembers the last answer of each stream of each socket, if it is not stored: its
// client continues it by sending only new items. The zero value is ready to use.
type recentAnswers struct {
	mu    sync.Mutex
	order list.List // of *recentAnswer, the oldest first
	bytes int
	limit int // instead of maxRecent

	memory *membudget.Budget // the budget that they count against; nil if there is none
	lease  membudget.Lease
}

// A recentAnswer is an answer and its owner.
type recentAnswer struct {
	socket *Socket
	stream string
	answer *perigee.StoredResponse
	at     *list.Element
}

func (a *recentAnswer) size() int { return len(a.answer.Input) + len(a.answer.Output) }

// countIn sets the budget in which answers are counted.
func (r *recentAnswers) countIn(memory *membudget.Budget) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.memory = memory
}

// put remembers an answer in place of the last one of its stream.
func (r *recentAnswers) put(s *Socket, stream string, answer *perigee.StoredResponse) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if before := s.kept[stream]; before != nil {
		r.drop(before)
	}
	a := &recentAnswer{socket: s, stream: stream, answer: answer}
	limit := r.most()
	if a.size() > limit {
		return
	}
	for r.bytes+a.size() > limit {
		r.drop(r.order.Front().Value.(*recentAnswer))
	}
	if !r.reserve(a.size()) {
		return
	}
	a.at = r.order.PushBack(a)
	r.bytes += a.size()
	if s.kept == nil {
		s.kept = map[string]*recentAnswer{}
	}
	s.kept[stream] = a
}

func (r *recentAnswers) most() int {
	limit := cmp.Or(r.limit, maxRecent)
	if size := r.memory.Size(); size > 0 {
		limit = min(limit, int(size/8))
	}
	return limit
}

// reserve reserves memory for an answer, and drops older ones if necessary.
func (r *recentAnswers) reserve(bytes int) bool {
	for {
		err := r.lease.Open(r.memory, false)
		if err == nil {
			err = r.lease.Grow(int64(bytes))
		}
		if err == nil || r.order.Len() == 0 {
			return err == nil
		}
		r.drop(r.order.Front().Value.(*recentAnswer))
	}
}

func (r *recentAnswers) drop(a *recentAnswer) {
	r.order.Remove(a.at)
	delete(a.socket.kept, a.stream)
	r.bytes -= a.size()
	if r.lease.Shrink(int64(a.size())); r.order.Len() == 0 {
		r.lease.Close()
	}
}

// find returns an answer of a socket, of whichever of its streams; nil when there is none.
func (r *recentAnswers) find(s *Socket, id string) *perigee.StoredResponse {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range s.kept {
		if a.answer.ID == id {
			return a.answer
		}
	}
	return nil
}

// forget drops all answers of a socket.
func (r *recentAnswers) forget(s *Socket) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range s.kept {
		r.drop(a)
	}
}
