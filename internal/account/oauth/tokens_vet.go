package oauth

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"perigee"
	"perigee/internal/adapt/providererr"
)

// ownerRetry is how long after a failed check the owner of an untested account is checked again.
const ownerRetry = 5 * time.Minute

// ownerTime is how long a call waits for the check. It does not need the result.
const ownerTime = 5 * time.Second

// verifyOwner checks the owner of an imported account with its first access token. If the email is
// the one that the account was imported under, the account is stored as ready. If it is another
// one, the account is stored as misnamed and no longer used: under two names, one account would get
// twice the load. If the server does not answer, the account stays untested.
func (t *Tokens) verifyOwner(ctx context.Context, h *accessToken) error {
	s := t.SignIn()
	if s.State != perigee.AccountUntested {
		return nil
	}
	names := t.Guard.names
	email, err := "", names.enter(s.Email)
	if err == nil {
		asking, cancel := context.WithTimeout(ctx, ownerTime)
		email, err = t.client.Email(asking, h.access)
		cancel()
	}
	var refusal *Refusal
	if err == nil && email != strings.ToLower(strings.TrimSpace(s.Email)) {
		refusal = otherOwner(s.Email, email)
		err = names.recordRefusal(s.Email, refusal)
	}
	switch {
	case err != nil && !isFinal(err):
		t.client.opts.Logger.Debug("owner of an account not found", "account", s.Email, "error", err)
		h.ahead = h.lifetime // startRefresh waits for vetAgain
		return nil
	case err != nil: // the sign-in does not permit this request; that the refresh token works has to suffice
		t.client.opts.Logger.Debug("owner of an account not available", "account", s.Email, "error", err)
	case refusal != nil:
		return t.setMisnamed(ctx, refusal)
	default:
		names.Reset()
	}
	return t.setState(ctx, perigee.AccountReady, "")
}

// isFinal reports whether another check would have the same result.
func isFinal(err error) bool {
	final := []providererr.Kind{providererr.KindUnauthenticated, providererr.KindSignedOut, providererr.KindForbidden}
	refusal, ok := errors.AsType[*Refusal](err)
	return ok && slices.Contains(final, refusal.Kind)
}

// otherOwner returns the error for a refresh token that belongs to another email than its account.
func otherOwner(name, owner string) *Refusal {
	return &Refusal{providererr.Diagnosis{Kind: providererr.KindMisnamed, Scope: providererr.ScopeAccount,
		Error: perigee.Errorf(perigee.ClassUnauthenticated, "this refresh token belongs to %s, not to %s", owner, name).
			WithHint("remove it or import it under its own name")}}
}

// setMisnamed stores that the refresh token of the account belongs to another email. It returns the
// refusal.
func (t *Tokens) setMisnamed(ctx context.Context, refusal *Refusal) error {
	if err := t.setState(ctx, perigee.AccountMisnamed, refusal.Error()); err != nil {
		return err
	}
	t.cacheRefusal(refusal, t.SignIn().Refresh)
	return refusal
}

// setState stores the state of an account that was untested, unless the user has changed it since.
// If that fails, the next refresh checks the account again. It returns errReplaced or errRemoved if
// the stored sign-in is no longer this one.
func (t *Tokens) setState(ctx context.Context, state, reason string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTime)
	defer cancel()
	for range maxRounds {
		s := t.SignIn()
		if s.State != perigee.AccountUntested {
			return nil
		}
		s.State, s.Reason = state, reason
		err := t.change(ctx, s)
		if err == nil {
			return nil
		}
		if errors.Is(err, perigee.ErrAccountChanged) {
			err = t.reload(ctx)
			if errors.Is(err, errReplaced) || errors.Is(err, errRemoved) {
				return err
			}
		}
		if err != nil {
			t.client.opts.Logger.Debug("state of an account not stored", "account", s.Email, "state", state, "error", err)
			return nil
		}
	}
	return nil
}
