package signin

import (
	"context"
	"log/slog"
	"slices"
	"sync"

	"perigee"
)

// users tracks the calls that need the current account, and the calls that wait for another one.
// The zero value has none.
type users struct {
	email   string // email of the account; empty if no call needs one
	count   int
	waiting []*user // in the order in which they came

	postponed bool // a change waits until no call needs an account
}

// A user is a call that waits for its account.
type user struct {
	email    string
	admitted chan struct{} // closed when the call may have it
}

// admit admits the next calls: all that wait for the account in use, and if none is in use, all
// that need the same account as the first one.
func (u *users) admit() {
	if u.count == 0 {
		u.email = ""
		if len(u.waiting) > 0 {
			u.email = u.waiting[0].email
		}
	}
	for len(u.waiting) > 0 && u.waiting[0].email == u.email {
		u.count++
		close(u.waiting[0].admitted)
		u.waiting = u.waiting[1:]
	}
}

// Use signs the language server in with an account, and keeps it signed in until release is
// called. The caller calls release when the language server has sent the request that needs the
// account; it may be called more than once. The token is the newest of the account.
//
// Calls with the same account run concurrently. Calls with different accounts take turns in the
// order in which they came, since a language server has one account at a time.
func (s *SignIn) Use(ctx context.Context, email string) (release func(), err error) {
	if err := s.enter(ctx, email); err != nil {
		return nil, err
	}
	roster := s.opts.Accounts()
	if roster == nil {
		err = perigee.Errorf(perigee.ClassUnavailable, "the accounts of %s are not in use", s.opts.Name)
	} else {
		// calls of two accounts may alternate for a long time
		err = s.change(ctx, roster, email, slog.LevelDebug)
	}
	if err != nil {
		s.leave()
		return nil, err
	}
	return sync.OnceFunc(s.leave), nil
}

// enter waits until no call needs another account.
func (s *SignIn) enter(ctx context.Context, email string) error {
	u := &user{email: email, admitted: make(chan struct{})}
	s.mu.Lock()
	s.users.waiting = append(s.users.waiting, u)
	s.users.admit()
	s.mu.Unlock()
	select {
	case <-u.admitted:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	i := slices.Index(s.users.waiting, u)
	if i >= 0 {
		s.users.waiting = slices.Delete(s.users.waiting, i, i+1)
		s.users.admit() // the next one may need the account in use
	}
	s.mu.Unlock()
	if i < 0 {
		s.leave() // it was admitted at the same moment
	}
	return ctx.Err()
}

func (s *SignIn) leave() {
	s.mu.Lock()
	s.users.count--
	s.users.admit()
	due := s.users.postponed && s.users.count == 0
	if due {
		s.users.postponed = false
	}
	s.mu.Unlock()
	if due {
		s.Check()
	}
}

// postpone ends a choice without a change if calls need another account than this one. It reports
// whether it did.
func (s *SignIn) postpone(email string) bool {
	s.mu.Lock()
	used := s.users.count > 0 && s.users.email != email
	s.users.postponed = s.users.postponed || used
	s.mu.Unlock()
	if used {
		s.decide(nil)
	}
	return used
}
