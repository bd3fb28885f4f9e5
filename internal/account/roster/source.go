package roster

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"perigee"
	"perigee/internal/account/oauth"
)

// A Source is one account that can be leased.
type Source struct {
	roster *Roster
	tokens *oauth.Tokens
	turn   chan struct{} // the holder of its one place may discover the project

	// The lock of the roster guards these.
	replaced bool      // another source has its place
	left     time.Time // when it was retired

	mu             sync.Mutex
	stored         perigee.SignIn // as the roster found it last
	project        string         // found out since
	refusedProject string         // the project that it replaces; empty if there was none
	checked        lookup         // the last time that a project was looked up
	refusal        refusal        // the last one outside of a lease

	quotaReadAt atomic.Int64 // when the quota was last asked for, in Unix nanoseconds; 0 if never
}

// A lookup is a project that an account had, or was found to have, when it was looked up.
type lookup struct {
	project   string
	at        time.Time
	confirmed bool // it is the account's
}

// A refusal is an access token that the provider did not take.
type refusal struct {
	token perigee.Secret
	at    time.Time
}

func newSource(r *Roster, signIn perigee.SignIn) *Source {
	s := &Source{roster: r, turn: make(chan struct{}, 1), stored: signIn}
	s.tokens = oauth.NewTokens(r.client, r.store, signIn)
	s.tokens.Guard = r.guard
	s.tokens.Changed = func() { r.publishUpdate(s) }
	s.tokens.Refreshed = func() { r.feed.publish(r.upstream) }
	return s
}

// update takes over changes of the account and returns s, unless there is a new sign-in: then it
// returns the source that replaces s.
func (s *Source) update(signIn perigee.SignIn) *Source {
	if !s.tokens.Covers(signIn) {
		return s.replaceWith(signIn, false)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stored = signIn
	return s
}

// replaceWith returns the source of a sign-in that takes the place of s, or of one that is added
// anew; that is s itself if it is just refreshing it.
func (s *Source) replaceWith(signIn perigee.SignIn, anew bool) *Source {
	if next := newSource(s.roster, signIn); s.tokens.Transfer(signIn, next.tokens, anew) {
		s.replaced = true
		return next
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stored = signIn
	return s
}

// SignIn returns the account as last read from the store.
func (s *Source) SignIn() perigee.SignIn {
	signIn := s.tokens.SignIn()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stored.Generation > signIn.Generation {
		signIn = s.stored
	}
	// Generations do not cover these.
	signIn.Cooldowns, signIn.Preferred = s.stored.Cooldowns, s.stored.Preferred
	if signIn.ProjectID == "" || signIn.ProjectID == s.refusedProject {
		signIn.ProjectID = cmp.Or(s.project, signIn.ProjectID)
	}
	return signIn
}

// adopt takes over the account that was just stored, unless it has another sign-in by then.
func (s *Source) adopt(signIn perigee.SignIn) {
	if !s.tokens.Covers(signIn) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if signIn.Generation > s.stored.Generation {
		signIn.Cooldowns, signIn.Preferred = s.stored.Cooldowns, s.stored.Preferred
		s.stored = signIn
	}
}

// Token returns an access token. If the project is not known yet, it is looked up first.
func (s *Source) Token(ctx context.Context) (perigee.Secret, error) {
	token, err := s.tokens.Token(ctx)
	if err != nil {
		return token, err
	}
	if s.SignIn().ProjectID == "" {
		if err := s.discover(ctx, token); err != nil {
			return perigee.Secret{}, err
		}
	}
	s.roster.readQuotaOnUse(s)
	return token, nil
}

// Refused reports that the provider did not accept a token.
func (s *Source) Refused(token perigee.Secret) { s.tokens.Refused(token) }
