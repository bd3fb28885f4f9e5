package responsesapi

import (
	"cmp"
	"slices"
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
	list  []recentAnswer // the oldest first
	bytes int
	limit int             // instead of maxRecent
	lease membudget.Lease // for all of them
}

// A recentAnswer is an answer and its owner.
type recentAnswer struct {
	socket *Socket
	stream string
	answer *perigee.StoredResponse
}

func (a *recentAnswer) size() int { return len(a.answer.Input) + len(a.answer.Output) }

// put remembers an answer in place of the last one of its stream, and drops older ones as far as
// necessary. The answers count in memory, which may be nil.
func (r *recentAnswers) put(a recentAnswer, memory *membudget.Budget) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(func(old recentAnswer) bool { return old.socket == a.socket && old.stream == a.stream })
	limit := cmp.Or(r.limit, maxRecent)
	if size := memory.Size(); size > 0 {
		limit = min(limit, int(size/8))
	}
	if a.size() > limit {
		return
	}
	for r.bytes+a.size() > limit || !r.reserve(a.size(), memory) {
		if len(r.list) == 0 {
			r.lease.Close()
			return
		}
		r.release(r.list[0])
		r.list[0] = recentAnswer{}
		r.list = r.list[1:]
	}
	r.list = append(r.list, a)
	r.bytes += a.size()
}

// reserve reports whether there was memory for so many bytes more, which is then reserved.
func (r *recentAnswers) reserve(bytes int, memory *membudget.Budget) bool {
	return r.lease.Open(memory, false) == nil && r.lease.Grow(int64(bytes)) == nil
}

// drop removes the answers for which gone returns true. The lock is held.
func (r *recentAnswers) drop(gone func(recentAnswer) bool) {
	r.list = slices.DeleteFunc(r.list, func(a recentAnswer) bool {
		if gone(a) {
			r.release(a)
			return true
		}
		return false
	})
	if len(r.list) == 0 {
		r.lease.Close()
	}
}

// release returns the memory of an answer that is removed from the list.
func (r *recentAnswers) release(a recentAnswer) {
	r.bytes -= a.size()
	r.lease.Shrink(int64(a.size()))
}

// find returns the answer of a socket with an id, or nil if there is none.
func (r *recentAnswers) find(s *Socket, id string) *perigee.StoredResponse {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.list {
		if a.socket == s && a.answer.ID == id {
			return a.answer
		}
	}
	return nil
}

// forget drops all answers of a socket.
func (r *recentAnswers) forget(s *Socket) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(func(a recentAnswer) bool { return a.socket == s })
}
