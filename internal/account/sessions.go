package account

import "container/list"

// MaxSessions is how many sessions are kept on their account. One that was not heard of for longest is forgotten first.
const MaxSessions = 4096

// A binding is the account that a session is served by, and from which pool.
type binding struct {
	member *member
	lane   *lane
}

type sessionKey struct {
	session string
	group   group
}

type sessionEntry struct {
	sessionKey
	binding
}

// sessions remembers the accounts of the latest sessions.
type sessions struct {
	size    int
	entries map[sessionKey]*list.Element
	order   *list.List // of *sessionEntry, the latest first
}

func newSessions(size int) sessions {
	return sessions{size: size, entries: map[sessionKey]*list.Element{}, order: list.New()}
}

func (s *sessions) find(session string, g group) (binding, bool) {
	if session == "" {
		return binding{}, false
	}
	e := s.entries[sessionKey{session, g}]
	if e == nil {
		return binding{}, false
	}
	b := e.Value.(*sessionEntry).binding
	return b, b.member.index >= 0
}

func (s *sessions) bind(session string, g group, b binding) {
	key := sessionKey{session, g}
	if e := s.entries[key]; e != nil {
		e.Value.(*sessionEntry).binding = b
		s.order.MoveToFront(e)
		return
	}
	if s.order.Len() >= s.size {
		last := s.order.Back()
		delete(s.entries, last.Value.(*sessionEntry).sessionKey)
		s.order.Remove(last)
	}
	s.entries[key] = s.order.PushFront(&sessionEntry{key, b})
}
