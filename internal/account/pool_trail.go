package account

import (
	"container/list"
	"slices"
	"time"
)

// maxSessions is how many sessions are kept on their account. One that was not heard of for longest is forgotten first.
const maxSessions = 4096

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

// A trail is what a call has met so far, left for its next Lend.
type trail struct {
	member *member // who was asked last
	lane   *lane
	spent  []spending    // whom the call has lost, and to what
	brief  bool          // who was asked last will be good again in a moment
	waited time.Duration // over all loans
	at     instant

	failed *member // whom the provider has failed with trouble of its own; nil: nobody yet
	again  bool    // that may have passed by now, so that the same account may be asked again

	tokenless []*member // whose access token could not be renewed
	tokenErr  error     // why, the last time
}

// A spending is an account that was lost to a cause.
type spending struct {
	kind   Kind
	member *member
}

// spend notes that a call has lost a member to a cause, and says how many it has lost to it by now.
func (t *trail) spend(kind Kind, m *member) (lost int) {
	if !slices.Contains(t.spent, spending{kind, m}) {
		t.spent = append(slices.Clip(t.spent), spending{kind, m})
	}
	for _, s := range t.spent {
		if s.kind == kind {
			lost++
		}
	}
	return lost
}

// Trails are forgotten when their call does not come back for so long, and when there are too many.
const (
	trailAge  = 10 * time.Second
	maxTrails = 1024
)

// trails finds the trail of a call. Calls have no names here: those of one session that ask the same model and have tried as
// often are taken for each other, which does them no harm.
type trails map[Want][]trail

func (t trails) leave(want Want, tr trail) {
	want.Tried++
	if len(t) >= maxTrails {
		t.sweep(tr.at)
	}
	list := t[want]
	for len(list) > 0 && list[0].at+trailAge < tr.at {
		list = list[1:]
	}
	if len(t) < maxTrails && len(list) < maxTrails {
		t[want] = append(list, tr)
	}
}

func (t trails) sweep(now instant) {
	for want, list := range t {
		if list[len(list)-1].at+trailAge < now {
			delete(t, want)
		}
	}
}

// follow takes the trail of a call. A call that borrows for the first time has none.
func (t trails) follow(want Want, now instant) trail {
	if want.Tried == 0 {
		return trail{}
	}
	for len(t[want]) > 0 {
		first := t[want][0]
		if t[want] = t[want][1:]; len(t[want]) == 0 {
			delete(t, want)
		}
		if first.at+trailAge >= now {
			return first
		}
	}
	return trail{}
}
