// Package providererr classifies the errors of Google's APIs: Antigravity, the sign-in server, and
// the official Gemini API.
//
// Classify reads a response that is not a success and returns its kind, its scope, when it ends and
// a hint for the user. It has two tables: rules.go maps evidence to a Kind, kind.go maps a Kind to
// its consequences. FromText does the same for an error that a language server passes on as text,
// StatusError for the official API. Ladder is the cooldown of an account where the provider names
// no delay.
//
// The package makes no calls, has no clock and no state. The antigravity upstream, the sign-in and
// the pool of accounts decide by the Diagnosis whether to retry, wait, or change the host or the
// account.
package providererr

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"perigee"
)

// A Diagnosis is the meaning of an error response for the call and for its account.
type Diagnosis struct {
	Kind     Kind
	Scope    Scope          // the part that the error affects, which gets a cooldown
	NextHost bool           // another endpoint may answer the same call
	Delay    time.Duration  // until it ends, at most MaxDelay; 0 if unknown, or if it is over
	Error    *perigee.Error // never nil, always with a class
	Link     string         // to the verification of the account; empty if there is none
	Rule     string         // the name of the matching rule, for traces
}

// New returns the diagnosis of a Kind, with the provider's message, and its delay; 0 if there is
// none.
func New(kind Kind, message string, delay time.Duration, now time.Time) Diagnosis {
	m := meanings[kind]
	v := Diagnosis{Kind: kind, Scope: m.scope, NextHost: m.nextHost}
	if m.passes {
		v.Delay = delay
	}
	v.Error = &perigee.Error{Class: m.class, Message: m.message + ": " + message, Hint: advice(m, v, now), Retry: v.Delay}
	return v
}

// WithQuotaLeft returns the diagnosis if the account is known to have quota left for the model, or
// another account got the same answer. A 429 without a reason is then no limit: the provider
// refuses the client that the system prompt names that way, whatever account is used.
func (v Diagnosis) WithQuotaLeft() Diagnosis {
	if v.Kind != KindUnexplained {
		return v
	}
	m := meanings[KindIdentity]
	e := *v.Error
	e.Class, e.Hint = m.class, m.hint
	e.Message = strings.Replace(e.Message, meanings[KindUnexplained].message, m.message, 1)
	v.Kind, v.Scope, v.NextHost, v.Error = KindIdentity, m.scope, m.nextHost, &e
	return v
}

// SignInPause is the delay before the next request to a failing sign-in server that names none.
const SignInPause = 5 * time.Second

// AtSignIn returns the diagnosis if the answer is of the sign-in server. Errors about the sign-in
// or the account stay; any other error becomes KindNoToken, whatever it would mean at the gateway:
// no model was asked, so it is not about quota.
func (v Diagnosis) AtSignIn(now time.Time) Diagnosis {
	switch v.Kind {
	case KindSignedOut, KindOAuthClient, KindVerification, KindBan, KindIneligible:
		if v.Error.Status != http.StatusTooManyRequests && v.Error.Status < http.StatusInternalServerError {
			return v
		}
	}
	message := strings.TrimPrefix(v.Error.Message, meanings[v.Kind].message+": ")
	d := New(KindNoToken, message, 0, now)
	d.Rule = v.Rule
	d.Error.Retry = SignInPause
	if v.Delay > 0 && v.Delay <= longestRest {
		d.Error.Retry = v.Delay
	}
	return d
}

// ErrRefreshPaused is in the error of a token source that did not try to refresh, because other
// accounts were just refused for a cause that may not be about them. It is not about the account
// either.
var ErrRefreshPaused = errors.New("the account is left alone")

// Reason returns the text for the owner of the account, with the link, which clients do not get.
func (v Diagnosis) Reason() string {
	reason := v.Error.Error()
	if v.Link != "" && !strings.Contains(reason, v.Link) {
		reason += " (" + v.Link + ")"
	}
	return reason
}

// Diagnose returns the diagnosis. Errors that carry one, such as sign-in errors, have this method.
func (v Diagnosis) Diagnose() Diagnosis { return v }

// Of returns the diagnosis that an error carries.
func Of(err error) (v Diagnosis, ok bool) {
	type diagnosed interface {
		error
		Diagnose() Diagnosis
	}
	refusal, ok := errors.AsType[diagnosed](err)
	if ok {
		v = refusal.Diagnose()
	}
	return v, ok
}
