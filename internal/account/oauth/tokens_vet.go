package oauth

import (
	"context"
	"errors"
	"strings"
	"time"

	"perigee"
	"perigee/internal/adapt/providererr"
)

// vetAgain is after how long it is asked again whose an untested account is, when that could not be found out.
const vetAgain = 5 * time.Minute

// vetTime is how long a call waits for that: it is not what the call wants to know.
const vetTime = 5 * time.Second

// vet finds out whose an account is that was brought from elsewhere, now that it has an access token, and stores that it
// works. If it is another's than its name says, it is stopped: under two names one account would be used twice as hard.
// When the server cannot be asked, that is no fault of the account's, and it stays untested.
func (t *Tokens) vet(ctx context.Context, h *held) error {
	s := t.SignIn()
	if s.State != perigee.AccountUntested {
		return nil
	}
	names := t.Guard.ofNames()
	email, err := "", names.enter(s.Email)
	if err == nil {
		asking, cancel := context.WithTimeout(ctx, vetTime)
		email, err = t.client.Email(asking, h.access)
		cancel()
	}
	var refusal *Refusal
	if err == nil && email != strings.ToLower(strings.TrimSpace(s.Email)) {
		refusal = otherOwner(s.Email, email)
		err = names.believe(s.Email, refusal)
	}
	switch {
	case err != nil && !settled(err):
		t.client.opts.Logger.Debug("owner of an account not found", "account", s.Email, "error", err)
		h.ahead = h.lifetime // startRefresh waits for vetAgain
		return nil
	case err != nil: // it may not be asked, as with a sign-in for less: what the provider takes will have to do
		t.client.opts.Logger.Debug("owner of an account not available", "account", s.Email, "error", err)
	case refusal != nil:
		return t.misnamed(ctx, refusal)
	default:
		names.accepted()
	}
	return t.turn(ctx, perigee.AccountReady, "")
}

// settled says whether asking again would bring the same answer.
func settled(err error) bool {
	refusal, ok := errors.AsType[*Refusal](err)
	if !ok {
		return false
	}
	switch refusal.Kind {
	case providererr.KindUnauthenticated, providererr.KindSignedOut, providererr.KindForbidden:
		return true
	}
	return false
}

// otherOwner is what is said about an account whose token is another's.
func otherOwner(name, owner string) *Refusal {
	return &Refusal{providererr.Diagnosis{Kind: providererr.KindMisnamed, Scope: providererr.ScopeAccount,
		Error: perigee.Errorf(perigee.ClassUnauthenticated, "this refresh token belongs to %s, not to %s", owner, name).
			WithHint("remove it or import it under its own name")}}
}

// misnamed stops an account whose token is another's.
func (t *Tokens) misnamed(ctx context.Context, refusal *Refusal) error {
	if err := t.turn(ctx, perigee.AccountMisnamed, refusal.Error()); err != nil {
		return err
	}
	t.remember(refusal, t.SignIn().Refresh)
	return refusal
}

// turn stores what has become of an untested account, unless the user has changed it meanwhile. If it cannot be stored
// the next refresh will find out again. It returns errReplaced when there is another sign-in by now.
func (t *Tokens) turn(ctx context.Context, state, reason string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTime)
	defer cancel()
	for range maxRounds {
		s := t.SignIn()
		if s.State != perigee.AccountUntested {
			return nil
		}
		s.State, s.Reason = state, reason
		generation, err := t.store.ChangeSignIn(ctx, s)
		if err == nil {
			s.Generation = generation
			t.know(s)
			return nil
		}
		if errors.Is(err, perigee.ErrAccountChanged) {
			err = t.look(ctx)
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
