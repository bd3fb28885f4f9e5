package oauth

import (
	"context"
	"errors"

	"perigee"
	"perigee/internal/adapt/providererr"
)

// The following methods handle changes of the account that are not made by Tokens: by users that
// sign in again or remove it, and by processes that share the store.

// Adopt takes over the sign-in as other processes have changed it in the store. An access token
// that is held stays in use: theirs is another one, and both are good.
func (t *Tokens) Adopt(s perigee.SignIn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	// A refresh reads the store itself, and must not take a later change for the one that it read.
	if t.current != nil || t.unsaved != nil || s.Generation < t.signIn.Generation {
		return
	}
	if s.Refresh.IsZero() { // it cannot be opened here
		s.Refresh = t.signIn.Refresh
	}
	t.signIn = s
}

// willStore records a token before it is in the store, so that Covers recognizes it when it is read
// from there.
func (t *Tokens) willStore(refresh perigee.Secret) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stored = refresh
}

// Covers reports whether a sign-in that was read from the store needs no Tokens of its own: it has
// the refresh token that is in use here, or the one that is just being stored, or it was read
// before that.
func (t *Tokens) Covers(s perigee.SignIn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.covers(s)
}

func (t *Tokens) covers(s perigee.SignIn) bool {
	return s.Generation < t.signIn.Generation || s.Refresh.Equal(t.signIn.Refresh.Reveal()) ||
		!t.stored.IsZero() && s.Refresh.Equal(t.stored.Reveal())
}

// Transfer replaces t by successor, unless t covers the sign-in after all; for one that is added
// anew, unless t is refreshing it already. From then on t spends no refresh token, and returns the
// tokens of successor. Two Tokens that refresh the same sign-in would spend its token twice, and a
// provider that rotates tokens accepts that once at most.
func (t *Tokens) Transfer(s perigee.SignIn, successor *Tokens, anew bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.covers(s) && (!anew || t.current != nil) {
		return false
	}
	t.successor = successor
	return true
}

// replacedBy returns the successor of t; nil if it has none.
func (t *Tokens) replacedBy() *Tokens {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.successor
}

// Retire ends t, which has a successor or was removed with its account. It returns false while t is
// refreshing, and can be called again later. An access token that is held is returned until it
// expires; a successor's tokens are returned without limit.
func (t *Tokens) Retire() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.current != nil {
		return false
	}
	t.closed = true
	t.cancel()
	return true
}

// refreshToken returns the refresh token. It is not ok if a successor has taken its place.
func (t *Tokens) refreshToken() (refresh perigee.Secret, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.signIn.Refresh, t.successor == nil
}

var errRemoved = errors.New("the account was removed")

// reload takes the sign-in from the store. It returns errReplaced when that has another refresh
// token.
func (t *Tokens) reload(ctx context.Context) error {
	known := t.SignIn()
	s, found, err := t.store.SignIn(ctx, known.Upstream, known.Email)
	if err != nil {
		return err
	}
	if found {
		if s.Refresh.IsZero() { // it cannot be opened: the sign-in in memory is still the best
			s.Refresh = known.Refresh
		}
		t.setSignIn(s)
		if !s.Refresh.Equal(known.Refresh.Reveal()) {
			return errReplaced
		}
		return nil
	}
	// That is not a state of an account: one that is added again under the same address is not
	// affected.
	return &Refusal{providererr.Diagnosis{Kind: providererr.KindOther, Scope: providererr.ScopeAccount,
		Error: perigee.Errorf(perigee.ClassUnauthenticated, "%s: %w", known.Email, errRemoved).WithHint("run `perigee login` to add it again")}}
}

// setSignIn takes over the stored sign-in, and calls Changed if the account's usability changes.
func (t *Tokens) setSignIn(s perigee.SignIn) {
	t.mu.Lock()
	was := t.signIn
	t.signIn = s
	t.mu.Unlock()
	if t.Changed != nil && (was.State != s.State || was.Reason != s.Reason || was.Enabled != s.Enabled || was.ProjectID != s.ProjectID) {
		t.Changed()
	}
}

// signOut stores that the refresh token is no longer accepted. If that fails, the next refresh is
// refused and stores it.
func (t *Tokens) signOut(ctx context.Context, refusal *Refusal) {
	s := t.SignIn()
	s.State, s.Reason = perigee.AccountSignedOut, refusal.Error()
	if err := t.change(ctx, s); err != nil {
		t.client.opts.Logger.Debug("signed-out account not stored", "account", s.Email, "error", err)
	}
}

// change stores a changed sign-in and takes it over with its new generation. The error is
// perigee.ErrAccountChanged if the stored one has been changed meanwhile.
func (t *Tokens) change(ctx context.Context, s perigee.SignIn) (err error) {
	if s.Generation, err = t.store.ChangeSignIn(ctx, s); err == nil {
		t.setSignIn(s)
	}
	return err
}
