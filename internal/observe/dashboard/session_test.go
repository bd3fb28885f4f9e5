package dashboard

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"perigee"
	"perigee/internal/testing/perigeetest/await"
)

type sessionRig struct {
	*Sessions
	now     time.Time
	changed int
}

func newSessionRig() *sessionRig {
	r := &sessionRig{now: time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC)}
	r.Sessions = NewSessions(func() time.Time { return r.now }, func() { r.changed++ })
	return r
}

// with returns a request with cookies of these values.
func with(values ...string) *http.Request {
	r := httptest.NewRequest("GET", "/", nil)
	for _, v := range values {
		r.AddCookie(&http.Cookie{Name: CookieName, Value: v})
	}
	return r
}

func TestATicketIsValidOnce(t *testing.T) {
	rig := newSessionRig()
	ticket := rig.NewTicket().Reveal()
	for range 3 {
		if !rig.IsTicket(ticket) {
			t.Fatal("looking at a ticket spends it")
		}
	}
	x, ok := rig.Exchange(ticket)
	if !ok || rig.IsTicket(ticket) {
		t.Fatal("it was not exchanged")
	}
	if _, again := rig.Exchange(ticket); again {
		t.Error("it is valid twice")
	}
	cookie := x.Cookie(false)
	if rig.Find(with(cookie.Value)) != x || rig.Find(with("", "x", cookie.Value)) != x || rig.Find(with(ticket)) != nil || rig.Find(with()) != nil ||
		rig.Find(with(x.FormToken())) != nil {
		t.Error("the session is not found by its cookie alone")
	}
	if !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.Path != "/" || cookie.Secure || cookie.MaxAge != 12*3600 ||
		cookie.Name != "perigee_session" || !x.Cookie(true).Secure {
		t.Errorf("got %+v", cookie)
	}
	if !x.IsFormToken(x.FormToken()) || x.IsFormToken("") || x.IsFormToken(cookie.Value) {
		t.Error("the form token is not compared")
	}
	rig.End(x)
	if rig.Find(with(cookie.Value)) != nil || rig.Valid(x) {
		t.Error("an ended session is valid")
	}
}

func TestTicketsAndSessionsExpire(t *testing.T) {
	rig := newSessionRig()
	late := rig.NewTicket().Reveal()
	rig.now = rig.now.Add(TicketLife)
	if rig.IsTicket(late) {
		t.Error("an old ticket is valid")
	}
	if _, ok := rig.Exchange(late); ok {
		t.Error("an old ticket is exchanged")
	}
	x, _ := rig.Exchange(rig.NewTicket().Reveal())
	cookie := x.Cookie(false).Value
	rig.now = rig.now.Add(Life - time.Second)
	if rig.Find(with(cookie)) == nil || !rig.Valid(x) {
		t.Error("it ends too early")
	}
	rig.now = rig.now.Add(time.Second)
	if rig.Find(with(cookie)) != nil || rig.Valid(x) || len(rig.Secrets()) != 0 {
		t.Error("it does not end")
	}
}

func TestNumbersAreBounded(t *testing.T) {
	rig := newSessionRig()
	var tickets []string
	for range maxTickets + 10 {
		rig.now = rig.now.Add(time.Millisecond)
		tickets = append(tickets, rig.NewTicket().Reveal())
	}
	if len(rig.tickets) != maxTickets || rig.IsTicket(tickets[9]) || !rig.IsTicket(tickets[10]) {
		t.Errorf("%d tickets", len(rig.tickets))
	}
	var last *Session
	for range maxSessions + 10 {
		rig.now = rig.now.Add(time.Millisecond)
		last, _ = rig.Exchange(rig.NewTicket().Reveal())
	}
	if len(rig.sessions) != maxSessions || !rig.Valid(last) {
		t.Errorf("%d sessions", len(rig.sessions))
	}
}

// The redactor has to know every value, before anything else does.
func TestSecretsHasEveryValue(t *testing.T) {
	rig := newSessionRig()
	ticket := rig.NewTicket()
	if rig.changed != 1 || !has(rig.Secrets(), ticket.Reveal()) {
		t.Error("the ticket is missing")
	}
	x, _ := rig.Exchange(ticket.Reveal())
	list := rig.Secrets()
	if rig.changed != 2 || len(list) != 2 || !has(list, x.FormToken()) || !has(list, x.Cookie(false).Value) {
		t.Errorf("%d values, %d changes", len(list), rig.changed)
	}
}

func has(list []perigee.Secret, value string) bool {
	return slices.ContainsFunc(list, func(s perigee.Secret) bool { return s.Reveal() == value })
}

func TestATicketIsExchangedOnceByManyAtATime(t *testing.T) {
	s := NewSessions(time.Now, func() {})
	ticket := s.NewTicket().Reveal()
	var wait sync.WaitGroup
	var mu sync.Mutex
	won := 0
	for range 20 {
		wait.Go(func() {
			if _, ok := s.Exchange(ticket); ok {
				mu.Lock()
				won++
				mu.Unlock()
			}
			s.Secrets()
		})
	}
	await.Return(t, wait.Wait, "the sign-ins")
	if won != 1 {
		t.Errorf("%d sessions", won)
	}
}

func TestANoticeIsShownOnce(t *testing.T) {
	var x Session
	x.SetNotice("done")
	if x.TakeNotice() != "done" || x.TakeNotice() != "" {
		t.Error("it is not")
	}
}
