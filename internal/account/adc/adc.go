// Package adc gets access tokens for Google's application default credentials: the file that
// GOOGLE_APPLICATION_CREDENTIALS names, the one that gcloud writes, or the metadata server of
// Google's machines. It reads credentials and never writes them: gcloud and administrators own them.
package adc

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"perigee"
	"perigee/internal/lib/steadyclock"
	"perigee/internal/lib/wire"
)

// Where credentials come from. FromFile is followed by a path.
const (
	FromAuto     = "auto"
	FromMetadata = "metadata"
	FromFile     = "file:"
)

const (
	scope = "https://www.googleapis.com/auth/cloud-platform"

	// refreshAhead is how long before its end a token is replaced, while calls still use it.
	refreshAhead = 5 * time.Minute
	// goodForAWhile is the remaining lifetime that a returned token has at least.
	goodForAWhile = 30 * time.Second
	// pauseAhead is how long no refresh ahead of time starts after one has failed.
	pauseAhead = 15 * time.Second
	// refusedFor is how long a refusal of credentials that have not changed is repeated without another request.
	refusedFor = time.Minute
	// refreshTime is how long one refresh may take.
	refreshTime = 30 * time.Second
	// maxRounds is how often a caller waits again because the credentials have changed meanwhile.
	maxRounds = 4
	// maxTokens is how many tokens a redactor gets. It asks with each call, and remembers them.
	maxTokens = 64
)

// A Token is an access token.
type Token struct {
	Access  perigee.Secret
	Project string // that the credentials belong to; empty if it is unknown
	Quota   string // the project that calls are charged to, for x-goog-user-project; empty if none is named
	User    bool   // the account is a person's, which belongs to no project
}

// A Source has the access tokens of one place. A token that is about to expire is refreshed when the
// next is requested, once for all callers, and never in the background. All methods may be called
// concurrently, after Use.
type Source struct {
	from  string
	send  sender
	clock *steadyclock.Clock

	mu         sync.Mutex
	found      *credentials // as last read; nil before the first request
	token      Token
	until      steadyclock.Instant // how long the token is returned
	ahead      steadyclock.Instant // when it is replaced while calls still use it
	aheadAfter steadyclock.Instant // when the next refresh ahead of time may start
	refusal    *perigee.Error      // of these credentials; nil if they were not refused
	asksAgain  steadyclock.Instant // when refused credentials are tried again
	current    *refresh            // nil if none is under way
	tokens     []perigee.Secret    // the last ones that servers sent, for a redactor
	torn       bool                // the file has changed, and is no JSON; found is what it was before
}

// A refresh is one that any number of callers wait for.
type refresh struct {
	of   *credentials
	done chan struct{}
	err  error // after done
}

// New returns a source: from is FromAuto, FromMetadata, or FromFile with a path. It reads and asks
// nothing until a token is requested.
func New(from string) *Source {
	s := &Source{from: cmp.Or(from, FromAuto), clock: steadyclock.New(time.Now)}
	s.Use(wire.NewTransport(), "")
	return s
}

// Use sets the transport and the User-Agent that tokens are requested with. It is called before the
// first request.
func (s *Source) Use(transport http.RoundTripper, userAgent string) {
	s.send = sender{transport: transport, userAgent: userAgent, learn: s.learn}
}

// Token returns an access token that does not expire soon. When ctx ends, only this caller stops
// waiting. The error is a *perigee.Error: of class unauthenticated if the credentials are missing,
// broken or refused, and of class unavailable if the server could not be asked.
func (s *Source) Token(ctx context.Context) (Token, error) {
	for range maxRounds {
		token, wait, err := s.now()
		if err != nil || wait == nil {
			return token, err
		}
		select {
		case <-ctx.Done():
			return Token{}, ctx.Err()
		case <-wait.done:
		}
		if wait.err != nil && !s.changed(wait.of) {
			return Token{}, wait.err
		}
	}
	return Token{}, perigee.Errorf(perigee.ClassUnavailable, "the Google credentials change all the time").WithHint("try again")
}

// now returns the token, or the refresh to wait for.
func (s *Source) now() (Token, *refresh, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.read(); err != nil {
		return Token{}, nil, err
	}
	now := s.clock.Now()
	usable := s.usable()
	switch {
	case usable && (now < s.ahead || now < s.aheadAfter || s.torn):
		return s.token, nil, nil
	case s.refusal != nil && now < s.asksAgain && !usable:
		return Token{}, nil, s.refusal
	}
	if s.current == nil || s.current.of != s.found {
		s.current = &refresh{of: s.found, done: make(chan struct{})}
		go s.refresh(s.current)
	}
	if usable {
		return s.token, nil, nil
	}
	return Token{}, s.current, nil
}

// usable reports whether the token can be returned. The caller holds the lock.
func (s *Source) usable() bool { return !s.token.Access.IsZero() && s.clock.Now() < s.until }

// read reads the credentials if they are not those that are known. A file that is no JSON may be half
// written: its earlier credentials remain as long as their token, and it is read again with each call.
// The caller holds the lock.
func (s *Source) read() error {
	place, err := locate(s.from)
	if err != nil {
		s.forget(nil)
		return err
	}
	if s.torn = false; s.found != nil && s.found.at == place {
		return s.found.broken
	}
	found := load(place)
	if found.torn && s.found != nil && s.found.at.path == place.path && (s.usable() || s.current != nil && s.current.of == s.found) {
		s.torn = true
		return nil
	}
	s.forget(found)
	return s.found.broken
}

// forget replaces the credentials by found, which may be nil. The caller holds the lock.
func (s *Source) forget(found *credentials) {
	s.found, s.token, s.refusal, s.aheadAfter = found, Token{}, nil, 0
}

// changed reports whether the credentials are no longer these.
func (s *Source) changed(of *credentials) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.read()
	return s.found != of
}

// refresh requests a token for all callers that wait. It has a time limit of its own: no caller can
// cancel it for another one.
func (s *Source) refresh(r *refresh) {
	ctx, cancel := context.WithTimeout(context.Background(), refreshTime)
	defer cancel()
	asked := s.clock.Now()
	got, lifetime, err := r.of.request(ctx, s.send)
	s.mu.Lock()
	defer s.mu.Unlock()
	defer close(r.done)
	if s.current == r {
		s.current = nil
	}
	r.err = err
	if s.found != r.of {
		return
	}
	if err != nil {
		s.aheadAfter = s.clock.Now() + pauseAhead
		if e := perigee.AsError(err); e.Class == perigee.ClassUnauthenticated {
			s.refusal, s.asksAgain = e, s.clock.Now()+refusedFor
		}
		return
	}
	s.token, s.refusal, s.aheadAfter = got, nil, 0
	expires := asked + lifetime
	s.until, s.ahead = expires-min(goodForAWhile, lifetime/4), expires-min(refreshAhead, lifetime/2)
}

// Refused makes the next Token request another one, unless that has happened since the access token
// was returned: the API has refused it.
func (s *Source) Refused(access perigee.Secret) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.token.Access == access {
		s.token = Token{}
	}
}

// learn keeps a token that a server has sent.
func (s *Source) learn(token perigee.Secret) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens = append(s.tokens, token)
	s.tokens = s.tokens[max(0, len(s.tokens)-maxTokens):]
}

// Secrets returns the secrets of the credentials and the last tokens, for a redactor.
func (s *Source) Secrets() []perigee.Secret {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.read(); err != nil && s.found == nil {
		return slices.Clone(s.tokens)
	}
	return slices.Concat(s.found.secrets, s.tokens)
}

// Unusable returns why no token can be had, as far as that is known without a request, or "".
func (s *Source) Unusable() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.read(); err != nil {
		return err.Error()
	}
	if s.refusal != nil && s.token.Access.IsZero() {
		return s.refusal.Error()
	}
	return ""
}
