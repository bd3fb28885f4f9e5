package dashboard

import (
	"crypto/rand"
	"crypto/sha256"
	"net/http"
	"sync"
	"time"

	"perigee"
)

// Bounds of tickets and sessions. Beyond the numbers the oldest are dropped.
const (
	TicketLife  = 60 * time.Second
	Life        = 12 * time.Hour
	maxTickets  = 64
	maxSessions = 32
)

// CookieName is the name of the cookie that carries a session.
const CookieName = "perigee_session"

// Sessions have the valid tickets and sessions. Their methods are safe for concurrent use.
type Sessions struct {
	now     func() time.Time
	changed func() // called after Secrets has changed

	mu       sync.Mutex
	tickets  map[sum]ticket
	sessions map[sum]*Session
}

type sum [sha256.Size]byte

type ticket struct {
	value   perigee.Secret
	expires time.Time
}

// A Session is a browser that is signed in.
type Session struct {
	expires time.Time
	cookie  perigee.Secret
	form    perigee.Secret

	mu     sync.Mutex
	notice string
	loaded string
}

// NewSessions returns Sessions without any. changed is called when Secrets has a new value, before
// that value is returned.
func NewSessions(now func() time.Time, changed func()) *Sessions {
	return &Sessions{now: now, changed: changed, tickets: map[sum]ticket{}, sessions: map[sum]*Session{}}
}

// newValue returns a random value of 130 bits.
func newValue() (perigee.Secret, sum) {
	value := rand.Text()
	return perigee.NewSecret(value), sha256.Sum256([]byte(value))
}

// NewTicket makes a ticket.
func (s *Sessions) NewTicket() perigee.Secret {
	value, key := newValue()
	s.mu.Lock()
	s.sweep()
	evict(s.tickets, maxTickets-1, func(t ticket) time.Time { return t.expires })
	s.tickets[key] = ticket{value, s.now().Add(TicketLife)}
	s.mu.Unlock()
	s.changed()
	return value
}

// IsTicket reports whether a ticket is valid, and does not spend it.
func (s *Sessions) IsTicket(value string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.tickets[sha256.Sum256([]byte(value))]
	return ok && s.now().Before(t.expires)
}

// Exchange spends a ticket and begins a session. ok is false if the ticket is not valid.
func (s *Sessions) Exchange(value string) (session *Session, ok bool) {
	key := sha256.Sum256([]byte(value))
	s.mu.Lock()
	s.sweep()
	if _, ok = s.tickets[key]; !ok {
		s.mu.Unlock()
		return nil, false
	}
	delete(s.tickets, key)
	cookie, id := newValue()
	form, _ := newValue()
	session = &Session{expires: s.now().Add(Life), cookie: cookie, form: form}
	evict(s.sessions, maxSessions-1, func(x *Session) time.Time { return x.expires })
	s.sessions[id] = session
	s.mu.Unlock()
	s.changed()
	return session, true
}

// Find returns the session of a request, or nil if it has none.
func (s *Sessions) Find(r *http.Request) *Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, cookie := range r.CookiesNamed(CookieName) {
		if i == 10 { // cookies of other servers on this machine, which may set any number of them
			break
		}
		if x := s.sessions[sha256.Sum256([]byte(cookie.Value))]; x != nil && s.now().Before(x.expires) {
			return x
		}
	}
	return nil
}

// End ends a session.
func (s *Sessions) End(x *Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, sha256.Sum256([]byte(x.cookie.Reveal())))
}

// Valid reports whether a session has neither expired nor been ended.
func (s *Sessions) Valid(x *Session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions[sha256.Sum256([]byte(x.cookie.Reveal()))] == x && s.now().Before(x.expires)
}

// Secrets returns all values that are valid now: they must not occur in traces, logs or pages.
func (s *Sessions) Secrets() []perigee.Secret {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
	var list []perigee.Secret
	for _, t := range s.tickets {
		list = append(list, t.value)
	}
	for _, x := range s.sessions {
		list = append(list, x.cookie, x.form)
	}
	return list
}

// sweep removes expired sessions and tickets.
func (s *Sessions) sweep() {
	now := s.now()
	for key, t := range s.tickets {
		if !now.Before(t.expires) {
			delete(s.tickets, key)
		}
	}
	for key, x := range s.sessions {
		if !now.Before(x.expires) {
			delete(s.sessions, key)
		}
	}
}

// evict removes the oldest values until there are at most n.
func evict[V any](m map[sum]V, n int, expires func(V) time.Time) {
	for len(m) > n {
		var oldest sum
		var at time.Time
		for key, v := range m {
			if t := expires(v); at.IsZero() || t.Before(at) {
				oldest, at = key, t
			}
		}
		delete(m, oldest)
	}
}

// Cookie returns the cookie of the session. Secure is for https.
func (x *Session) Cookie(secure bool) *http.Cookie {
	return &http.Cookie{Name: CookieName, Value: x.cookie.Reveal(), Path: "/", MaxAge: int(Life / time.Second),
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: secure}
}

// NoCookie returns the cookie that removes the one of a session from the browser.
func NoCookie(secure bool) *http.Cookie {
	return &http.Cookie{Name: CookieName, Path: "/", MaxAge: -1, HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: secure}
}

// FormToken is the value that the forms of the session's pages have.
func (x *Session) FormToken() string { return x.form.Reveal() }

// IsFormToken compares a value with FormToken in constant time.
func (x *Session) IsFormToken(value string) bool { return x.form.Equal(value) }

// SetNotice sets the text that the next page of the session shows.
func (x *Session) SetNotice(text string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.notice = text
}

// TakeNotice returns the text of SetNotice and clears it.
func (x *Session) TakeNotice() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	text := x.notice
	x.notice = ""
	return text
}

// Again reports whether the previous call of the session was for the same page: it is being
// reloaded.
func (x *Session) Again(page string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	again := x.loaded == page
	x.loaded = page
	return again
}
