package httpapi

import (
	"container/list"
	"sync"

	"perigee"
)

// maxRecent is how many bytes of answers are remembered for all open sockets together. A client whose answer had to be
// forgotten is told that it is not found, and sends the whole conversation again.
const maxRecent = 256 << 20

// recentAnswers remembers the last answer of each stream of each socket, if it is not stored: its client goes on from it
// with only what is new. Its zero value is ready.
type recentAnswers struct {
	mu    sync.Mutex
	order list.List // of *recentAnswer, the oldest first
	bytes int
	limit int // instead of maxRecent
}

// A recentAnswer is an answer, and whose it is.
type recentAnswer struct {
	socket *socket
	stream string
	answer *perigee.StoredResponse
	at     *list.Element
}

func (a *recentAnswer) size() int { return len(a.answer.Input) + len(a.answer.Output) }

// put remembers an answer in place of the last one of its stream.
func (r *recentAnswers) put(s *socket, stream string, answer *perigee.StoredResponse) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if before := s.kept[stream]; before != nil {
		r.drop(before)
	}
	a := &recentAnswer{socket: s, stream: stream, answer: answer}
	limit := r.limit
	if limit == 0 {
		limit = maxRecent
	}
	if a.size() > limit {
		return
	}
	for r.bytes+a.size() > limit {
		r.drop(r.order.Front().Value.(*recentAnswer))
	}
	a.at = r.order.PushBack(a)
	r.bytes += a.size()
	if s.kept == nil {
		s.kept = map[string]*recentAnswer{}
	}
	s.kept[stream] = a
}

func (r *recentAnswers) drop(a *recentAnswer) {
	r.order.Remove(a.at)
	delete(a.socket.kept, a.stream)
	r.bytes -= a.size()
}

// find returns an answer of a socket, of whichever of its streams; nil when there is none.
func (r *recentAnswers) find(s *socket, id string) *perigee.StoredResponse {
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
func (r *recentAnswers) forget(s *socket) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range s.kept {
		r.drop(a)
	}
}
