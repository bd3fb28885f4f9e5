// Package verdict judges what the provider's answers mean for the accounts that the calls were made with.
//
// Classify reads an answer of the Antigravity API, or of the sign-in server, that is not a success and says what kind
// of trouble it is, who it belongs to, when it ends and what the user can do. It is two tables: rules.go leads from what
// the provider said to a Kind, kind.go from a Kind to what follows from it. Ladder is how long to leave an account
// alone when the provider did not say.
//
// The package calls nobody, has no clock and remembers nothing: who retries, waits, changes the host or the account
// does so on the strength of a Verdict. The antigravity upstream and the sign-in ask for verdicts; the pool of accounts, in
// package account, acts on them.
package verdict

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"perigee"
)

// A Verdict is what an answer of the provider means for the call and for the account that made it.
type Verdict struct {
	Kind     Kind
	Blame    Scope          // who it belongs to, and so who is to be left alone
	NextHost bool           // another endpoint may answer the same call
	Delay    time.Duration  // when it ends, as the provider said, at most MaxDelay; 0: it did not say, or said "at once"
	Error    *perigee.Error // never nil, always with a class
	Link     string         // where the account is verified, when the provider gave a link that can be trusted
	Rule     string         // the row of the table that decided, for traces
}

// New is the verdict that a Kind leads to, with what was said, and the delay that was told; 0: none was.
func New(kind Kind, said string, delay time.Duration, now time.Time) Verdict {
	m := meanings[kind]
	v := Verdict{Kind: kind, Blame: m.blame, NextHost: m.nextHost}
	if m.passes {
		v.Delay = delay
	}
	v.Error = &perigee.Error{Class: m.class, Message: m.says + ": " + said, Next: advice(m, v, now), Retry: v.Delay}
	return v
}

// WithQuotaLeft is the verdict for somebody who knows that the account had quota left for the model, or that another account
// was answered alike. A 429 that explains nothing is then no limit: the provider words it so when it does not like
// the client that the system prompt names, and no account is to be blamed for it.
func (v Verdict) WithQuotaLeft() Verdict {
	if v.Kind != KindUnexplained {
		return v
	}
	m := meanings[KindIdentity]
	e := *v.Error
	e.Class, e.Next = m.class, m.next
	e.Message = strings.Replace(e.Message, meanings[KindUnexplained].says, m.says, 1)
	v.Kind, v.Blame, v.NextHost, v.Error = KindIdentity, m.blame, m.nextHost, &e
	return v
}

// SignInPause is after how long to ask a sign-in server in trouble again that did not say.
const SignInPause = 5 * time.Second

// AtSignIn is the verdict for somebody who asked the sign-in server for an access token. What it says about the sign-in or the
// account counts. Everything else is trouble of its own, whatever its words would mean at the gateway: no model was asked, so no
// quota is used up, and the time after which one would be back means nothing.
func (v Verdict) AtSignIn(now time.Time) Verdict {
	switch v.Kind {
	case KindSignedOut, KindOAuthClient, KindVerification, KindBan, KindIneligible:
		if v.Error.Status != http.StatusTooManyRequests && v.Error.Status < http.StatusInternalServerError {
			return v
		}
	}
	said := strings.TrimPrefix(v.Error.Message, meanings[v.Kind].says+": ")
	trouble := New(KindNoToken, said, 0, now)
	trouble.Rule = v.Rule
	trouble.Error.Retry = SignInPause
	if v.Delay > 0 && v.Delay <= longestRest {
		trouble.Error.Retry = v.Delay
	}
	return trouble
}

// Reason is what the owner of the account is told, with the link that whoever made the call need not see.
func (v Verdict) Reason() string {
	reason := v.Error.Error()
	if v.Link != "" && !strings.Contains(reason, v.Link) {
		reason += " (" + v.Link + ")"
	}
	return reason
}

// Judgement returns the verdict. Whatever has one inside, such as an error of the sign-in, has this method too.
func (v Verdict) Judgement() Verdict { return v }

// Of returns the verdict that an error has inside.
func Of(err error) (v Verdict, ok bool) {
	type judged interface {
		error
		Judgement() Verdict
	}
	refusal, ok := errors.AsType[judged](err)
	if ok {
		v = refusal.Judgement()
	}
	return v, ok
}
