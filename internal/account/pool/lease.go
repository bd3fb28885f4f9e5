package pool

import (
	"context"
	"errors"
	"fmt"
	"time"

	"perigee"
	"perigee/internal/adapt/providererr"
)

// A lease is a member while a call uses it.
type lease struct {
	call   *acquisition
	pool   *Pool
	member *member
	source Source
	group  *quotaGroup
	why    choiceReason
	began  instant
	// generation is the generation of the sign-in that the diagnosis is about; it is read before
	// the pool is locked, as a source may have locks of its own.
	generation int64
	pause      time.Duration // before it is used
	done       bool          // guarded by the pool's lock
	answering  bool          // so is this

	token perigee.Secret // got ahead of time; zero once it was returned
}

func (l *lease) Account() Leased {
	return Leased{Email: l.member.email, Project: l.source.SignIn().ProjectID, CLI: l.group.pool == PoolCLI, Why: l.why.String()}
}

func (l *lease) Token(ctx context.Context) (perigee.Secret, error) {
	if token := l.token; !token.IsZero() {
		l.token = perigee.Secret{}
		return token, nil
	}
	return l.source.Token(ctx)
}

func (l *lease) Refused(token perigee.Secret) { l.source.Refused(token) }

func (l *lease) FindProject(ctx context.Context, refused string) bool {
	finder, ok := l.source.(ProjectFinder)
	return ok && finder.FindProject(ctx, refused)
}

func (l *lease) Answering() {
	p := l.pool
	p.lock()
	defer p.unlock()
	if l.done || l.answering {
		return
	}
	l.answering = true
	p.breaker.endProbe(l, nil, p.now)
	l.answered()
}

func (l *lease) Done(v *providererr.Diagnosis) {
	p := l.pool
	if v != nil && v.Scope == providererr.ScopeAccount {
		l.generation = l.source.SignIn().Generation
	}
	p.lock()
	defer p.unlock()
	if l.done {
		return
	}
	l.end(v)
	a := l.call
	a.last, a.brief = l, false
	a.waited += l.why.waited
	switch {
	case v != nil:
		l.failed(v)
	case !l.answering:
		l.answered()
	}
}

// end gives the account back.
func (l *lease) end(v *providererr.Diagnosis) {
	l.done = true
	l.member.leases--
	l.pool.breaker.endProbe(l, v, l.pool.now)
}

// release returns an account that was not used.
func (l *lease) release() {
	l.pool.lock()
	defer l.pool.unlock()
	l.endUnused()
}

func (l *lease) endUnused() {
	l.end(&providererr.Diagnosis{Scope: providererr.ScopeNone})
	l.member.health.uncharge(l.pool.now)
}

// paused waits as long as the lease asks for, and reports whether it could.
func (l *lease) paused(ctx context.Context) bool {
	return l.pause == 0 || perigee.Pause(ctx, l.pause)
}

// maxTokenFailures is for how many accounts one Next tries to renew a token that cannot be renewed
// at the moment. After that the sign-in server is presumably down, and each attempt may take long.
const maxTokenFailures = 3

// getToken gets the access token, so that an account that has lost its sign-in is noticed while
// another can still take its place. A lease that it returns an error for has ended; took is how
// long the attempt took.
func (l *lease) getToken(ctx context.Context) (took time.Duration, err error) {
	l.token, err = l.source.Token(ctx)
	if err == nil {
		return 0, nil
	}
	p, m, a := l.pool, l.member, l.call
	if ctx.Err() != nil {
		a.over, a.tokens.err = true, err
		l.release()
		return 0, err
	}
	l.generation = l.source.SignIn().Generation
	p.lock()
	defer p.unlock()
	l.endUnused() // a locked account is noted below
	v := TokenFailure(err)
	switch c := causeOf(v.Kind); {
	case errors.Is(err, providererr.ErrRefreshPaused):
		a.tokens.members, a.tokens.err = append(a.tokens.members, m), err
	case c.state != "":
		m.stop(l.source, c.state, perigee.AsError(err).Error(), l.generation)
		if c.costly && a.recordLost(v.Kind, m) {
			a.over, a.tokens.err = true, signInRefused(err, len(p.members) > breakerMaxLost)
		}
	case v.Scope == providererr.ScopeNone:
		a.over, a.tokens.err = true, err
	default:
		a.over = a.tokens.add(m, err)
		m.startCooldown(&m.cooldowns[wholeAccount], failure{kind: providererr.KindNoToken, began: l.began})
	}
	return p.now - l.began - l.pause, err
}

// signInRefused returns the error of a call that has lost as many accounts as it may to the answers
// of the sign-in server.
func signInRefused(err error, others bool) error {
	e := *perigee.AsError(err)
	e.Message = fmt.Sprintf("%d accounts cannot be signed in for the same cause: %s", breakerMaxLost, e.Message)
	if others {
		e.Hint += "; the other accounts were not tried"
	}
	e.Hint += "; if this is unexpected, check that oauth.client_id of this upstream " +
		"is the OAuth client that its accounts were signed in with"
	return &e
}

// TokenFailure returns the diagnosis for an account without an access token: the sign-in server's
// error about the account, or about every account, and otherwise providererr.KindNoToken, which is
// not the account's fault but means that another one has to be tried.
func TokenFailure(err error) providererr.Diagnosis {
	v, ok := providererr.Of(err)
	if ok && (v.Scope == providererr.ScopeNone || causeOf(v.Kind).state != "") {
		return v
	}
	v = providererr.Diagnosis{Kind: providererr.KindNoToken, Scope: providererr.ScopeAccount, Error: perigee.AsError(err)}
	if ok || errors.Is(err, providererr.ErrRefreshPaused) {
		return v
	}
	switch v.Error.Class {
	case perigee.ClassUnauthenticated:
		v.Kind = providererr.KindSignedOut
	case perigee.ClassVerification:
		v.Kind = providererr.KindVerification
	case perigee.ClassIdentity, perigee.ClassInvalid: // the OAuth client, or its configuration
		v.Kind, v.Scope = providererr.KindOAuthClient, providererr.ScopeNone
	}
	return v
}

// Reasons for a choice that are always the same.
const (
	// WhyOnly is the reason for the choice of the only account.
	WhyOnly = "the only account"

	whySession = "the session is bound to this account"
	whySame    = "same account again, after the delay that the provider asked for"
	whyAgain   = "same account again after a provider error, as no other account is usable"
	whyFaulty  = "no other account is usable, and this one cools down only after provider errors"
	whyProbe   = "all accounts are cooling down: probing whether this one still has to"
)

// choiceReason is the reason for a choice.
type choiceReason struct {
	reason string
	// chosen reports a choice from all eligible accounts, or for the session. WhyOnly replaces the
	// reason if there is only one account.
	chosen bool
	only   bool // there is no other account
	low    bool // only accounts with low quota were eligible
	// instead reports that the call has failed with another account. Its session moves only if this
	// account answers.
	instead bool
	waited  time.Duration
}

func (w choiceReason) String() string {
	const tenth = time.Second / 10 // less is the time that it took to get the lock, or a processor
	s := w.reason
	if w.chosen && w.only {
		s = WhyOnly
	}
	if w.low {
		s += "; no usable account has more quota left"
	}
	if w.waited >= tenth {
		s += "; waited " + w.waited.Round(time.Millisecond).String()
	}
	return s
}
