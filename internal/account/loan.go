package account

import (
	"context"
	"errors"
	"fmt"
	"time"

	"perigee"
	"perigee/internal/verdict"
)

// A loan is a member while a call has it.
type loan struct {
	call   *borrowing
	pool   *Pool
	member *member
	source Source
	lane   *lane
	why    why
	began  instant
	// generation is that of the sign-in which the verdict is about; it is read before the pool is locked, as a source may
	// have locks of its own.
	generation int64
	pause      time.Duration // before it is used
	done       bool          // guarded by the pool's lock
	answering  bool          // so is this

	token perigee.Secret // got ahead of time; zero once it was given out
}

func (l *loan) Email() string   { return l.member.email }
func (l *loan) Project() string { return l.source.SignIn().ProjectID }
func (l *loan) CLI() bool       { return l.lane.pool == PoolCLI }
func (l *loan) Why() string     { return l.why.String() }

func (l *loan) Token(ctx context.Context) (perigee.Secret, error) {
	if token := l.token; !token.IsZero() {
		l.token = perigee.Secret{}
		return token, nil
	}
	return l.source.Token(ctx)
}

func (l *loan) Refused(token perigee.Secret) { l.source.Refused(token) }

func (l *loan) FindProject(ctx context.Context, refused string) bool {
	finder, ok := l.source.(ProjectFinder)
	return ok && finder.FindProject(ctx, refused)
}

// Answering has those go on who wait for what becomes of this call: it looks whether accounts are locked, or probes a rest.
func (l *loan) Answering() {
	p := l.pool
	p.mu.Lock()
	defer p.unlock()
	if l.done || l.answering {
		return
	}
	l.answering = true
	now := p.advance()
	p.looked(l, nil, now)
	p.answered(l, now)
}

// Done gives the account back. If the pool knows better than the answer alone could tell what was wrong, it corrects the
// verdict, so that the call does not go on to spend other accounts on the same cause.
func (l *loan) Done(v *verdict.Verdict) {
	p := l.pool
	if v != nil && v.Blame == verdict.ScopeAccount {
		l.generation = l.source.SignIn().Generation
	}
	p.mu.Lock()
	defer p.unlock()
	if l.done {
		return
	}
	l.done = true
	now := p.advance()
	p.takeBack(l, now)
	p.looked(l, v, now)
	l.call.remember(l)
	switch {
	case v != nil:
		p.blame(l, v, now)
	case !l.answering:
		p.answered(l, now)
	}
}

// release gives back an account that was not used.
func (l *loan) release() {
	p := l.pool
	p.mu.Lock()
	defer p.unlock()
	now := p.advance()
	p.takeBack(l, now)
	p.refund(l.member, now)
	p.looked(l, &unused, now)
}

// unused is the verdict about a loan that nobody has used.
var unused = verdict.Verdict{Blame: verdict.ScopeNobody}

func (p *Pool) takeBack(l *loan, now instant) {
	l.member.lent--
	p.refreshBusy(l.member)
}

func (p *Pool) refund(m *member, now instant) {
	if m.index >= 0 {
		p.gauges[m.index].refund(now)
	}
}

// maxTokenFailures is how many accounts one Next tries whose tokens cannot be renewed for the moment. After so many it is
// the sign-in server, and each may take long to find out.
const maxTokenFailures = 3

// prepare gets the access token, so that an account that has lost its sign-in is noticed while another can still take its
// place. A loan that it returns an error for has been given back; took is how long it took to find out.
func (l *loan) prepare(ctx context.Context) (took time.Duration, err error) {
	token, err := l.source.Token(ctx)
	if err == nil {
		l.token = token
		return 0, nil
	}
	if ctx.Err() != nil {
		l.call.over, l.call.tokenErr = true, err
		l.release()
		return 0, err
	}
	l.generation = l.source.SignIn().Generation
	p, m, b := l.pool, l.member, l.call
	p.mu.Lock()
	defer p.unlock()
	l.done = true
	now := p.advance()
	p.takeBack(l, now)
	p.refund(m, now)
	p.looked(l, &unused, now) // who is locked is noted below
	switch kind, everybody := judge(err); {
	case errors.Is(err, ErrLeftAlone):
		b.tokenless, b.tokenErr = append(b.tokenless, m), err
	case stateAfter(kind) != "":
		p.stop(m, l.source, stateAfter(kind), perigee.AsError(err).Error(), l.generation, now)
		if burns(kind) && b.spend(kind, m) >= maxSpent {
			b.over, b.tokenErr = true, p.lostAtSignIn(err)
		}
	case everybody:
		b.over, b.tokenErr = true, err
	default:
		b.tokenless = append(b.tokenless, m)
		b.failures++
		b.over, b.tokenErr = b.failures == maxTokenFailures, err
		p.restAfter(m, nil, &m.whole, failure{kind: verdict.KindNoToken, began: l.began}, now)
	}
	return now - l.began - l.pause, err
}

// lostAtSignIn is what a call is told that has lost as many accounts as it may to what the sign-in server says.
func (p *Pool) lostAtSignIn(err error) error {
	e := *perigee.AsError(err)
	e.Message = fmt.Sprintf("%d accounts cannot be signed in for the same cause: %s", maxSpent, e.Message)
	if len(p.members) > maxSpent {
		e.Next += "; the other accounts were spared"
	}
	e.Next += "; if this should not be so, check that oauth.client_id of this upstream is the OAuth client that its accounts were signed in with"
	return &e
}

// WithoutToken is the verdict about an account for which there was no access token when a call needed another one: what the
// sign-in server said about the account, or about everybody, and otherwise verdict.KindNoToken, which is not the account's fault but
// means that somebody else has to be asked.
func WithoutToken(err error) verdict.Verdict {
	kind, everybody := judge(err)
	if v, ok := verdict.Of(err); ok && (everybody || stateAfter(kind) != "") {
		return v
	}
	v := verdict.Verdict{Kind: kind, Blame: verdict.ScopeAccount, Error: perigee.AsError(err)}
	switch {
	case everybody:
		v.Kind, v.Blame = verdict.KindOAuthClient, verdict.ScopeNobody
	case errors.Is(err, ErrLeftAlone) || stateAfter(kind) == "":
		v.Kind = verdict.KindNoToken
	}
	return v
}

// judge says what is wrong with an account that has no access token because of err, if that is known, and whether every account
// would meet the same.
func judge(err error) (kind verdict.Kind, everybody bool) {
	if v, ok := verdict.Of(err); ok {
		return v.Kind, v.Blame == verdict.ScopeNobody
	}
	switch perigee.AsError(err).Class {
	case perigee.ClassUnauthenticated:
		return verdict.KindSignedOut, false
	case perigee.ClassVerification:
		return verdict.KindVerification, false
	case perigee.ClassIdentity, perigee.ClassInvalid: // the OAuth client, or how it is configured
		return "", true
	}
	return "", false
}

// The reasons for a choice.
type whyCode int

const (
	whyFirst whyCode = iota
	whyStay
	whyMoved
	whyOverflow
	whyTurn
	whyWeighed
	whySession
	whySame
	whyProbe
	whyInstead
	whyAgain
	whyFaulty
)

// WhyOnly is why an account was chosen that is the only one there is.
const WhyOnly = "the only account"

// why is the reason for a choice, kept so that it costs nothing until somebody asks.
type why struct {
	code      whyCode
	selection string
	only      bool // there is no other
	spared    bool
	waited    time.Duration

	from  string // who was left, for what and until when
	kind  verdict.Kind
	until time.Time

	score float64
}

func (w why) String() string {
	const tenth = time.Second / 10 // less is no waiting: the call did not get a lock, or a processor, at once
	s := w.reason()
	if w.spared {
		s += "; nobody has more quota left"
	}
	if w.waited >= tenth {
		s += "; waited " + w.waited.Round(time.Millisecond).String()
	}
	return s
}

func (w why) reason() string {
	switch w.code {
	case whyFirst, whyStay, whyTurn, whyWeighed, whySession:
		if w.only {
			return WhyOnly
		}
	}
	switch w.code {
	case whyStay:
		return w.selection + ": the last call went here too"
	case whyMoved:
		if w.kind == "" || w.kind == kindBusy {
			return fmt.Sprintf("%s: moved on from %s, which is not usable", w.selection, w.from)
		}
		return fmt.Sprintf("%s: moved on from %s, which rests until %s (%s)", w.selection, w.from, w.until.Format(time.DateTime), w.kind)
	case whyOverflow:
		return w.selection + ": the current account has as many calls as it may"
	case whyTurn:
		return w.selection + ": its turn"
	case whyWeighed:
		return fmt.Sprintf("%s: most points (%.0f)", w.selection, w.score)
	case whySession:
		return "the session stays with its account"
	case whySame:
		return "the same account again, after the pause that the provider asked for"
	case whyInstead:
		return "the provider is in trouble with " + w.from + ": another one may be answered"
	case whyAgain:
		return "the provider was in trouble: the same account again, as there is no other"
	case whyFaulty:
		return "nobody else is usable, and this one only rests from trouble of the provider"
	case whyProbe:
		return "everybody rests: looking whether this one still has to"
	}
	return w.selection + ": the first that is usable"
}
