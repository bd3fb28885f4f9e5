package oauth

import (
	"context"
	"errors"

	"perigee"
	"perigee/internal/adapt/providererr"
)

// What follows handles changes of the account that are not made by Tokens: by users that sign in
// again or remove it, and by processes that share the store.

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

// willStore notes a token before it is in the store, so that Covers knows it when it is read from
// there.
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

// Transfer has successor take the place of t, unless t covers the sign-in after all; for one that
// is added anew, unless t is refreshing it already. From then on t spends no refresh token, and
// gives out what successor does. Two that refresh the same sign-in would spend its token twice, and
// a provider that rotates tokens forgives that once at most.
func (t *Tokens) Transfer(s perigee.SignIn, successor *Tokens, anew bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.covers(s) && (!anew || t.current != nil) {
		return false
	}
	t.successor = successor
	return true
}

// replacedBy is what has taken the place of t; nil: nothing.
func (t *Tokens) replacedBy() *Tokens {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.successor
}

// Retire ends t, which has a successor or whose account was removed, unless it is refreshing: then
// it returns false, and can be called again later. An access token that is held is given out to its
// end, and what successor has for ever.
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

// toSpend returns the refresh token. It is not ok if a successor has taken its place.
func (t *Tokens) toSpend() (refresh perigee.Secret, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.signIn.Refresh, t.successor == nil
}

var errRemoved = errors.New("the account was removed")

// look takes the sign-in from the store. It returns errReplaced when that has another refresh
// token.
func (t *Tokens) look(ctx context.Context) error {
	known := t.SignIn()
	s, found, err := t.store.SignIn(ctx, known.Upstream, known.Email)
	if err != nil {
		return err
	}
	if found {
		if s.Refresh.IsZero() { // it cannot be opened: what is known here is still the best
			s.Refresh = known.Refresh
		}
		t.know(s)
		if !s.Refresh.Equal(known.Refresh.Reveal()) {
			return errReplaced
		}
		return nil
	}
	// That is no state of an account: one that is added again under the same address has nothing to
	// do with it.
	return &Refusal{providererr.Diagnosis{Kind: providererr.KindOther, Scope: providererr.ScopeAccount,
		Error: perigee.Errorf(perigee.ClassUnauthenticated, "%s: %w", known.Email, errRemoved).WithHint("run `perigee login` to add it again")}}
}

// know takes over the sign-in as it is stored, and calls Changed if that changes what the account
// can be used for.
func (t *Tokens) know(s perigee.SignIn) {
	t.mu.Lock()
	was := t.signIn
	t.signIn = s
	t.mu.Unlock()
	if t.Changed != nil && (was.State != s.State || was.Reason != s.Reason || was.Enabled != s.Enabled || was.ProjectID != s.ProjectID) {
		t.Changed()
	}
}

// signOut stores that the refresh token is no longer accepted. If that cannot be stored, the next
// refresh will find out again.
func (t *Tokens) signOut(ctx context.Context, refusal *Refusal) {
	s := t.SignIn()
	s.State, s.Reason = perigee.AccountSignedOut, refusal.Error()
	generation, err := t.store.ChangeSignIn(ctx, s)
	if err != nil {
		t.client.opts.Logger.Debug("signed-out account not stored", "account", s.Email, "error", err)
		return
	}
	s.Generation = generation
	t.know(s)
}
