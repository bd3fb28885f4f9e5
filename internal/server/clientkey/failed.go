package clientkey

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"perigee"
)

// Requests without a valid key are limited by address and in total: how fast they are answered, and
// how often they are logged.
//
// An answer to a wrong key waits when its address has sent more than ten within a minute. Keys are
// compared before that, so a valid key works at once, even if its address has sent wrong ones.
// Waiting answers are few: without a place, a wrong key is answered 429 at once and its connection
// is closed, so that each further guess costs a connection.
const (
	freeGuesses  = 10
	guessWindow  = time.Minute
	guessDelay   = time.Second
	maxDelayed   = 256 // answers that wait, in all
	maxDelayedOf = 16  // and of one address
	maxAddresses = 4096
	maxLogLines  = 20 // lines a minute about new addresses, and again as many about known ones
)

// FailedAuth counts requests without a valid key by the address that they come from; an IPv6 /64
// counts as one address. The zero value is ready once Now and Logger are set.
type FailedAuth struct {
	Now    func() time.Time
	Logger *slog.Logger

	mu      sync.Mutex
	by      map[netip.Addr]*failures
	delayed int
	lines   int       // about new addresses,
	since   time.Time // from this time on
	timer   *time.Timer
	closed  bool
}

// failures are the failed requests of one address.
type failures struct {
	began   time.Time // of the window
	guesses int       // within it
	delayed int
	logged  time.Time // the last line
	pending int       // requests since then that have not been logged
	last    []any     // attributes of the last of them
}

// AddressOf returns the address that a request counts for. It is the zero Addr for requests without
// one.
func AddressOf(r *http.Request) netip.Addr {
	port, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	address := port.Addr().Unmap().WithZone("")
	if address.Is6() {
		prefix, _ := address.Prefix(64) // which is never too long
		return prefix.Addr()
	}
	return address
}

// find returns the entry of an address. If the table is full, addresses without an entry share one.
// The lock is held.
func (s *FailedAuth) find(address netip.Addr) *failures {
	found := s.by[address]
	if found == nil && len(s.by) >= maxAddresses {
		address = netip.Addr{}
		found = s.by[address]
	}
	if found == nil {
		if s.by == nil {
			s.by = map[netip.Addr]*failures{}
		}
		found = &failures{}
		s.by[address] = found
	}
	return found
}

// Guess counts a wrong key, and waits for a second if its address has sent too many. It returns the
// error to answer with: wrong, or a refusal if too many answers are waiting.
func (s *FailedAuth) Guess(ctx context.Context, address netip.Addr, wrong error) error {
	s.mu.Lock()
	now, found := s.Now(), s.find(address)
	if age := now.Sub(found.began); age < 0 || age >= guessWindow {
		found.began, found.guesses = now, 0
	}
	found.guesses++
	switch {
	case found.guesses <= freeGuesses:
		s.mu.Unlock()
		return wrong
	case s.delayed >= maxDelayed || found.delayed >= maxDelayedOf:
		e := perigee.Errorf(perigee.ClassRateLimited, "too many wrong keys came from this address").
			WithHint("send one of the keys in perigee's configuration")
		e.Retry = found.began.Add(guessWindow).Sub(now)
		s.mu.Unlock()
		return e
	}
	s.delayed++
	found.delayed++
	s.mu.Unlock()
	timer := time.NewTimer(guessDelay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delayed--
	found.delayed--
	return wrong
}

// Refused logs a refusal: at most one line per minute and address, with the number of refusals
// since the previous line.
func (s *FailedAuth) Refused(address netip.Addr, attributes ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, found := s.Now(), s.find(address)
	found.pending++
	found.last = attributes
	if age := now.Sub(s.since); age < 0 || age >= time.Minute {
		s.since, s.lines = now, 0
	}
	if found.due(now) && s.lines < maxLogLines {
		s.lines++
		s.log(address, found, now)
	}
	if s.timer == nil && !s.closed {
		s.timer = time.AfterFunc(time.Minute, s.sweep)
	}
}

// due reports whether there may be a line about an address again.
func (f *failures) due(now time.Time) bool {
	age := now.Sub(f.logged)
	return age < 0 || age >= time.Minute
}

func (s *FailedAuth) log(address netip.Addr, found *failures, now time.Time) {
	s.Logger.Info("refused", append(slices.Clip(found.last), "address", address, "requests", found.pending)...)
	found.logged, found.pending, found.last = now, 0, nil
}

// sweep runs once a minute while there are addresses. It logs refusals that have not been logged
// yet, the addresses with most requests first, and removes addresses without new requests.
func (s *FailedAuth) sweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.Now()
	pending := slices.SortedFunc(maps.Keys(s.by), func(a, b netip.Addr) int {
		return cmp.Or(s.by[b].pending-s.by[a].pending, a.Compare(b))
	})
	more, requests := 0, 0
	for i, address := range pending {
		found := s.by[address]
		switch {
		case found.pending > 0 && !found.due(now): // the next sweep does
		case found.pending > 0 && i < maxLogLines:
			s.log(address, found, now)
		case found.pending > 0:
			more, requests = more+1, requests+found.pending
			found.logged, found.pending, found.last = now, 0, nil
		case found.delayed == 0 && found.due(now) && now.Sub(found.began).Abs() >= guessWindow:
			delete(s.by, address)
		}
	}
	if more > 0 {
		s.Logger.Info("refused", "addresses", more, "requests", requests)
	}
	s.timer = nil
	if len(s.by) > 0 && !s.closed {
		s.timer = time.AfterFunc(time.Minute, s.sweep)
	}
}

// Close ends the sweeping.
func (s *FailedAuth) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed = true; s.timer != nil {
		s.timer.Stop()
	}
}
