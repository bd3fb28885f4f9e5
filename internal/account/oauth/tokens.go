package oauth

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"perigee"
	"perigee/internal/adapt/providererr"
	"perigee/internal/lib/steadyclock"
)

// Times and limits of Tokens.
const (
	// refreshAhead is how long before its end a token is replaced, while calls still use it.
	refreshAhead = 5 * time.Minute
	// aheadJitter is by how much more at most, so that accounts do not all refresh at once.
	aheadJitter = time.Minute
	// goodForAWhile is the remaining lifetime that a returned token has at least.
	goodForAWhile = 30 * time.Second
	// pauseAhead is how long no refresh ahead of time starts after one has failed.
	pauseAhead = 15 * time.Second
	// refreshTime is how long one refresh may take, including the store.
	refreshTime = 90 * time.Second
	// saveTime is how long storing a rotated token may take, even if the refresh is canceled.
	saveTime = 15 * time.Second
	// maxRounds is how often a refresh is repeated after the sign-in was changed concurrently.
	maxRounds = 4
)

// Tokens returns access tokens for one sign-in. A token that is about to expire is refreshed when
// the next is requested, once for all callers, and never in the background. If the provider
// replaces the refresh token, the new one is stored before the access token that came with it is
// returned. An account is stored as signed out when its refresh token is no longer accepted; a
// network that is down changes nothing. An imported account is untested until its first refresh has
// shown that it works and which account it is.
//
// All methods may be called concurrently. The exported fields are set before the first call.
type Tokens struct {
	// Guard is shared with the other accounts of the OAuth client. NewTokens sets one for this
	// account alone, which never pauses.
	Guard *Guard
	// Changed, if not nil, is called whenever refreshing has changed the account: its state, its
	// project or whether it is enabled. It is called before the callers that wait for the refresh
	// get their answer.
	Changed func()
	// Refreshed, if not nil, is called after each refresh that returned a new access token.
	Refreshed func()

	client  *Client
	store   perigee.AccountStore
	clock   *steadyclock.Clock
	jitter  func() time.Duration
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu         sync.Mutex
	closed     bool
	signIn     perigee.SignIn
	token      accessToken
	current    *refresh            // nil if none is under way
	stored     perigee.Secret      // the rotated token that was stored last, or is about to be
	successor  *Tokens             // has taken its place; nil if there is none
	aheadAfter steadyclock.Instant // when the next refresh ahead of time may start

	// Only the refresh that is under way uses these.
	unsaved           *accessToken // came with a rotated token that could not be stored yet
	rotated           perigee.Secret
	lastRefusal       error          // the answer to a refresh token that is no longer accepted
	refusedToken      perigee.Secret // that token
	refusedGeneration int64          // the generation that the answer left behind
}

// A refresh is one that any number of callers wait for.
type refresh struct {
	done   chan struct{}
	access perigee.Secret // after done
	err    error
}

// accessToken is an access token with its age.
type accessToken struct {
	access   perigee.Secret
	asked    steadyclock.Instant // when it was asked for
	lifetime time.Duration
	ahead    time.Duration // before the end it is replaced
	margin   time.Duration // before the end it is not given out
}

// NewTokens returns a source of access tokens for a stored sign-in. It makes no calls until a token
// is requested.
func NewTokens(client *Client, store perigee.AccountStore, signIn perigee.SignIn) *Tokens {
	t := &Tokens{Guard: NewGuard(client.opts.Now), client: client, store: store, signIn: signIn, clock: steadyclock.New(client.opts.Now),
		jitter: func() time.Duration { return rand.N(aheadJitter) }}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	return t
}

// closeGrace is how long Close waits for a refresh that is under way: the server may have rotated
// the token already, and without the new one the account is lost.
const closeGrace = 3 * time.Second

// Close waits a moment for a refresh that is under way and then ends it, except for storing a token
// that has already come. Token fails from then on.
func (t *Tokens) Close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	over := make(chan struct{})
	go func() {
		t.running.Wait()
		close(over)
	}()
	select {
	case <-over:
	case <-time.After(closeGrace):
	}
	t.cancel()
	<-over
	if t.unsaved != nil { // it is nowhere else
		if _, err := t.storeRotated(context.Background()); err != nil {
			t.client.opts.Logger.Error("new refresh token lost: it cannot be stored", "account", t.signIn.Email, "error", err)
		}
	}
}

// SignIn returns the sign-in as it was last read from the store.
func (t *Tokens) SignIn() perigee.SignIn {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.signIn
}

// Secrets returns the refresh token and the access token, for a redactor.
func (t *Tokens) Secrets() (refresh, access perigee.Secret) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.signIn.Refresh, t.token.access
}

// Token returns an access token that does not expire soon. When ctx ends only this caller stops
// waiting. When the sign-in is gone the error is of perigee.ClassUnauthenticated and has a hint.
func (t *Tokens) Token(ctx context.Context) (perigee.Secret, error) {
	access, err := t.ownToken(ctx)
	if errors.Is(err, errReplaced) || errors.Is(err, errRemoved) {
		if successor := t.replacedBy(); successor != nil {
			return successor.Token(ctx)
		}
	}
	return access, err
}

// ownToken returns an access token of this sign-in, or errReplaced when another has taken its
// place.
func (t *Tokens) ownToken(ctx context.Context) (perigee.Secret, error) {
	if err := ctx.Err(); err != nil {
		return perigee.Secret{}, err
	}
	t.mu.Lock()
	if t.successor != nil {
		defer t.mu.Unlock()
		return perigee.Secret{}, errReplaced
	}
	left := t.token.lifetime - t.age(&t.token)
	if left > t.token.margin {
		if left <= t.token.ahead && t.current == nil && t.clock.Now() >= t.aheadAfter && !t.closed && t.Guard.check(t.signIn.Email) == nil {
			t.startRefresh()
		}
		defer t.mu.Unlock()
		return t.token.access, nil
	}
	if t.closed {
		defer t.mu.Unlock()
		return perigee.Secret{}, perigee.Errorf(perigee.ClassUnavailable, "the account %s is being closed", t.signIn.Email)
	}
	if t.current == nil {
		// A paused account does not wait for the lease of the store.
		if err := t.Guard.check(t.signIn.Email); err != nil {
			defer t.mu.Unlock()
			return perigee.Secret{}, err
		}
		t.startRefresh()
	}
	f := t.current
	t.mu.Unlock()
	select {
	case <-f.done:
		return f.access, f.err
	case <-ctx.Done():
		return perigee.Secret{}, ctx.Err()
	}
}

// Refused reports that the provider did not accept an access token that has not expired. The next
// Token returns another one. If many calls were refused with the same token, only the first report
// has an effect.
func (t *Tokens) Refused(access perigee.Secret) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.token.access.Equal(access.Reveal()) {
		t.token = accessToken{}
	}
	if t.successor != nil {
		t.successor.Refused(access)
	}
}

// Left returns how long an access token that Token gave out lasts, and how long before its end
// Token begins to replace it. Both are 0 for one that has been replaced already.
func (t *Tokens) Left(access perigee.Secret) (left, ahead time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.token.access.Equal(access.Reveal()):
		return max(0, t.token.lifetime-t.age(&t.token)), t.token.ahead
	case t.successor != nil:
		return t.successor.Left(access)
	}
	return 0, 0
}

func (t *Tokens) age(h *accessToken) time.Duration { return t.clock.Now() - h.asked }

// startRefresh starts a refresh. The lock is held.
func (t *Tokens) startRefresh() {
	f := &refresh{done: make(chan struct{})}
	t.current = f
	t.running.Go(func() {
		ctx, cancel := context.WithTimeout(t.ctx, refreshTime)
		defer cancel()
		h, err := t.renew(ctx)
		if t.Refreshed != nil && err == nil {
			defer t.Refreshed() // after the lock is released
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		t.current = nil
		if err == nil {
			t.token = *h
			f.access = h.access
			if t.signIn.State == perigee.AccountUntested {
				t.aheadAfter = t.clock.Now() + ownerRetry
			}
		} else {
			t.aheadAfter = t.clock.Now() + pauseAhead
			f.err = err
			t.client.opts.Logger.Debug("access token not refreshed", "account", t.signIn.Email, "error", err)
		}
		close(f.done)
	})
}

// errReplaced means that the stored sign-in has another refresh token than the one that was used.
var errReplaced = errors.New("the sign-in was replaced meanwhile")

// renew gets a new access token, with the refresh token that is stored if that is another than the
// one known here.
func (t *Tokens) renew(ctx context.Context) (*accessToken, error) {
	release, err := t.takeTurn(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	for range maxRounds {
		if t.unsaved == nil {
			err := t.requestToken(ctx)
			if errors.Is(err, errReplaced) && t.replacedBy() == nil {
				continue
			}
			if err != nil {
				return nil, err
			}
		}
		h, err := t.storeRotated(ctx)
		if errors.Is(err, errReplaced) || err == nil && h.lifetime-t.age(h) <= h.margin {
			continue // the second condition is for a token that has waited for the store for too long
		}
		if err == nil {
			err = t.verifyOwner(ctx, h)
		}
		if errors.Is(err, errReplaced) {
			continue
		}
		return h, err
	}
	return nil, perigee.Errorf(perigee.ClassUnavailable, "the account %s changes faster than it can be refreshed", t.SignIn().Email)
}

// takeTurn waits for other processes that refresh the same account in the same store, and then uses
// the tokens that they stored: a refresh token that was replaced must not be used again.
func (t *Tokens) takeTurn(ctx context.Context) (release func(), err error) {
	shared, ok := t.store.(perigee.RefreshLeaser)
	if !ok {
		return func() {}, nil
	}
	s := t.SignIn()
	release, err = shared.LeaseRefresh(ctx, s.Upstream, s.Email)
	if err != nil {
		return nil, fmt.Errorf("refresh %s: %w", s.Email, err)
	}
	if release == nil {
		return func() {}, nil
	}
	if t.unsaved != nil {
		return release, nil // the store may be older than the tokens that could not be stored yet
	}
	if err := t.reload(ctx); err != nil && !errors.Is(err, errReplaced) {
		release()
		return nil, err
	}
	return release, nil
}

// requestToken refreshes and leaves the answer in unsaved.
func (t *Tokens) requestToken(ctx context.Context) error {
	if t.lastRefusal != nil && t.refusedToken.Equal(t.SignIn().Refresh.Reveal()) {
		// Only another token can help, or enabling the account again: no request is necessary.
		err := t.reload(ctx)
		s := t.SignIn()
		switch {
		case errors.Is(err, errRemoved):
			return err
		case !errors.Is(err, errReplaced) && (s.Generation == t.refusedGeneration || !perigee.UsableState(s.State)):
			return t.lastRefusal
		}
	}
	t.lastRefusal = nil
	h := accessToken{asked: t.clock.Now()}
	used, ok := t.refreshToken()
	if !ok {
		return errReplaced
	}
	if err := t.Guard.enter(t.SignIn().Email); err != nil {
		return err
	}
	grant, err := t.client.Refresh(ctx, used)
	if refusal, ok := errors.AsType[*Refusal](err); ok && StateOf(err) != "" {
		return t.handleRefusal(ctx, refusal, used)
	}
	if err != nil {
		return err
	}
	t.Guard.Reset()
	h.access, h.lifetime = grant.Access, grant.Lifetime
	h.ahead = min(refreshAhead+t.jitter(), grant.Lifetime/4)
	h.margin = min(goodForAWhile, grant.Lifetime/8)
	t.unsaved, t.rotated = &h, grant.Refresh
	return nil
}

// handleRefusal handles a refusal that stops an account, if it is the account's.
func (t *Tokens) handleRefusal(ctx context.Context, refusal *Refusal, used perigee.Secret) error {
	// Another process may have had this token replaced.
	if err := t.reload(ctx); errors.Is(err, errReplaced) || errors.Is(err, errRemoved) {
		return err
	}
	if err := t.Guard.recordRefusal(t.SignIn().Email, refusal); err != nil {
		return err
	}
	if refusal.Kind == providererr.KindSignedOut {
		t.signOut(ctx, refusal)
		t.cacheRefusal(refusal, used)
	}
	return refusal
}

// cacheRefusal caches the answer to a refresh token, so that the token is not sent again.
func (t *Tokens) cacheRefusal(refusal *Refusal, used perigee.Secret) {
	t.lastRefusal, t.refusedToken, t.refusedGeneration = refusal, used, t.SignIn().Generation
}

// storeRotated stores a rotated token and returns the access token that came with it. When storing
// fails the answer stays in unsaved: it may have the only copy of the new token.
func (t *Tokens) storeRotated(ctx context.Context) (*accessToken, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTime)
	defer cancel()
	h := t.unsaved
	for range maxRounds {
		s := t.SignIn()
		if t.rotated.IsZero() || s.Refresh.Equal(t.rotated.Reveal()) {
			t.unsaved = nil
			return h, nil
		}
		s.Refresh = t.rotated
		t.willStore(s.Refresh)
		err := t.change(ctx, s)
		if err == nil {
			continue
		}
		if !errors.Is(err, perigee.ErrAccountChanged) {
			return nil, perigee.Errorf(perigee.AsError(err).Class, "the new refresh token of %s cannot be stored: %w", s.Email, err)
		}
		// A token that another process has stored is valid as well, and that process relies on it.
		if err := t.reload(ctx); err != nil {
			if errors.Is(err, errReplaced) || errors.Is(err, errRemoved) {
				t.unsaved = nil
			}
			return nil, err
		}
	}
	return nil, perigee.Errorf(perigee.ClassUnavailable, "the account %s changes faster than its token can be stored", t.SignIn().Email)
}
