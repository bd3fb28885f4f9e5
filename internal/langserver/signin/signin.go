// Package signin keeps a language server signed in: it chooses one account among those of an upstream, renews its access token before
// that ends, and reports each change. The account is another one when the owner prefers, disables or removes one, and when the provider
// refuses the one in use. Between changes it does nothing.
package signin

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"perigee"
	"perigee/internal/accounts"
	"perigee/internal/steadyclock"
)

// Accounts are the accounts of an upstream. accounts.Roster has them.
type Accounts interface {
	Choices() []accounts.Choice
	Credential(ctx context.Context, email string) (accounts.Credential, error)
	RefuseToken(email string, access perigee.Secret)
}

// A Feed reports changes of accounts. accounts.Feed does.
type Feed interface {
	Subscribe(deliver func(accounts.Change)) (cancel func())
}

var (
	_ Accounts = (*accounts.Roster)(nil)
	_ Feed     = (*accounts.Feed)(nil)
)

// A Credential is what a language server is signed in with.
type Credential struct {
	Email   string
	Project string // of the provider; empty: unknown
	Access  perigee.Secret
	Expiry  time.Time
}

// A Change is a new credential. If there is none, Email is empty and Reason says why.
type Change struct {
	Credential
	Account bool  // the account differs from the one before, or there was none
	Reason  error // a *perigee.Error with a hint
}

// Options of a SignIn.
type Options struct {
	Name     string          // of the upstream that has the accounts, for hints
	Accounts func() Accounts // in force, since a reload may replace them; nil: there are none
	Feed     Feed            // of all accounts; those of Name count
	Email    string          // the only account to use; empty: any
	Changed  func(Change)    // called for each change, one at a time
	Now      func() time.Time
	Logger   *slog.Logger
}

// How long a SignIn waits.
const (
	retryFirst   = 20 * time.Second // after a token could not be renewed; doubles with each further failure
	retryMax     = 5 * time.Minute
	refusedFor   = time.Minute      // an account that the provider refused, where it does not say for how long
	tokenSettles = 10 * time.Second // reports that a token is refused are about the one before for so long
)

// A SignIn signs one language server in. All methods may be called concurrently.
type SignIn struct {
	opts  Options
	clock *steadyclock.Clock
	wake  chan struct{} // a change may be due

	cancel context.CancelFunc
	done   chan struct{}

	mu        sync.Mutex
	current   accounts.Credential
	reason    *perigee.Error                 // there is no credential
	trouble   error                          // the credential could not be renewed
	replaced  steadyclock.Instant            // when an access token of the account in use was replaced by another
	renew     steadyclock.Instant            // when it has to be renewed
	refused   map[string]steadyclock.Instant // accounts that are not used until then
	preferred string                         // by the owner
	decided   chan struct{}                  // closed after the next choice, for callers that wait for it
	reporting bool                           // Changed has not returned yet
}

// New returns a SignIn without a credential.
func New(opts Options) *SignIn {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return &SignIn{opts: opts, clock: steadyclock.New(opts.Now), wake: make(chan struct{}, 1), done: make(chan struct{}),
		refused: map[string]steadyclock.Instant{}, decided: make(chan struct{})}
}

// Start chooses an account in the background, and goes on until Close.
func (s *SignIn) Start() {
	var ctx context.Context
	ctx, s.cancel = context.WithCancel(context.Background())
	unsubscribe := s.opts.Feed.Subscribe(func(c accounts.Change) {
		if c.Upstream == s.opts.Name {
			s.Check()
		}
	})
	s.Check()
	go func() {
		defer close(s.done)
		defer unsubscribe()
		s.run(ctx)
	}()
}

// Close ends what Start began. Changed is not called after it returns.
func (s *SignIn) Close() {
	if s.cancel == nil {
		return
	}
	s.cancel()
	<-s.done
}

// Check chooses again, for changes that the feed does not report.
func (s *SignIn) Check() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Refused says that the provider refused calls with an account, for which class of error and until when; a time that is not in the future
// stands for a minute. Another account is used until then, if there is one. After perigee.ClassUnauthenticated, the access token is replaced in
// any case.
func (s *SignIn) Refused(email string, class perigee.Class, until time.Time) {
	pause := until.Sub(s.opts.Now())
	if pause <= 0 {
		pause = refusedFor
	}
	s.mu.Lock()
	now := s.clock.Now()
	s.refused[email] = max(s.refused[email], now+pause)
	inUse, access := email == s.current.Email, s.current.Access
	outdated := class == perigee.ClassUnauthenticated && inUse && now-s.replaced >= tokenSettles
	s.mu.Unlock()
	if list := s.opts.Accounts(); outdated && list != nil {
		list.RefuseToken(email, access)
	}
	s.opts.Logger.Info("account refused", "upstream", s.opts.Name, "account", email, "class", class, "pause", pause)
	s.Check()
}

// Current returns the credential, or the reason why there is none. It waits for the first choice, and for a token that is overdue,
// for example because the machine slept.
func (s *SignIn) Current(ctx context.Context) (Credential, error) {
	for range 2 { // the first choice that it waits for may have begun before the token was overdue
		current, decided, err := s.look()
		if decided == nil {
			return current, err
		}
		s.Check()
		select {
		case <-decided:
		case <-s.done:
			return Credential{}, errStopping
		case <-ctx.Done():
			return Credential{}, ctx.Err()
		}
	}
	current, _, err := s.look()
	return current, err
}

// Next returns the credential after the accounts were looked at again, for example because the provider has refused the last one.
func (s *SignIn) Next(ctx context.Context) (Credential, error) {
	for range 2 { // the first choice may have begun before
		s.mu.Lock()
		decided := s.decided
		s.mu.Unlock()
		s.Check()
		select {
		case <-decided:
		case <-s.done:
			return Credential{}, errStopping
		case <-ctx.Done():
			return Credential{}, ctx.Err()
		}
	}
	return s.Current(ctx)
}

var errStopping = perigee.Errorf(perigee.ClassUnavailable, "the language server is being stopped")

// look returns the credential or why there is none, and if neither is known the end of the next choice.
func (s *SignIn) look() (c Credential, next <-chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.reason != nil:
		return c, nil, s.reason
	case s.reporting:
		return c, s.decided, perigee.Errorf(perigee.ClassUnavailable, "the account is being changed")
	case s.current.Email != "" && s.opts.Now().Before(s.current.Expiry):
		return public(s.current), nil, nil
	}
	if err = s.trouble; err == nil {
		err = perigee.Errorf(perigee.ClassUnavailable, "no account has been chosen yet")
	}
	return c, s.decided, err
}

func public(c accounts.Credential) Credential {
	return Credential{c.Email, c.Project, c.Access, c.Expiry}
}

// run chooses whenever something has changed, and when the token has to be renewed.
func (s *SignIn) run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	timer.Stop()
	failures := 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		case <-timer.C:
		}
		next, failed := s.choose(ctx)
		if failed {
			next = min(retryFirst<<min(failures, 8), retryMax)
			failures++
		} else {
			failures = 0
		}
		timer.Stop()
		if next > 0 {
			timer.Reset(next)
		}
	}
}

// choose takes the first account that has a token. It returns when to choose again without a change (0: never), and whether a token
// could not be had for a reason that may pass.
func (s *SignIn) choose(ctx context.Context) (next time.Duration, failed bool) {
	roster := s.opts.Accounts()
	list, why := s.ordered(roster)
	var trouble error // of the best account
	for _, email := range list {
		got, err := roster.Credential(ctx, email)
		if ctx.Err() != nil {
			return 0, false
		}
		if err == nil {
			s.publish(got, nil)
			return s.nextChoice(), trouble != nil && !final(trouble)
		}
		s.opts.Logger.Debug("no access token", "upstream", s.opts.Name, "account", email, "error", err)
		if !final(err) && s.keeps(email) {
			s.decide(err)
			return 0, true
		}
		if trouble == nil || final(trouble) {
			trouble = err
		}
	}
	if trouble != nil && !final(trouble) && slices.Contains(list, s.inUse()) {
		s.decide(trouble) // the token in use has ended, but there is no better one
		return 0, true
	}
	if trouble != nil {
		if _, why = s.ordered(roster); why == nil { // otherwise the accounts know the reason by now
			why = perigee.AsError(trouble)
		}
	}
	s.publish(accounts.Credential{}, why)
	return s.nextChoice(), trouble != nil && !final(trouble)
}

func (s *SignIn) inUse() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current.Email
}

// decide ends a choice. The error says why the credential could not be renewed.
func (s *SignIn) decide(trouble error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trouble, s.reporting = trouble, false
	close(s.decided)
	s.decided = make(chan struct{})
}

// final reports whether only the owner can repair the cause of an error.
func final(err error) bool {
	switch perigee.AsError(err).Class {
	case perigee.ClassUnauthenticated, perigee.ClassVerification, perigee.ClassForbidden, perigee.ClassNotFound:
		return true
	}
	return false
}

// keeps reports whether an account has a token that can be used while it cannot be renewed.
func (s *SignIn) keeps(email string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return email == s.current.Email && s.opts.Now().Before(s.current.Expiry) && s.refused[email] <= s.clock.Now()
}

// ordered lists the accounts that may be used, the best first: the preferred one, the one in use, those without a cooldown, the rest of
// them. Those that the provider refused are last, since another account may be as good. If there are none, it returns the reason.
func (s *SignIn) ordered(roster Accounts) (emails []string, why *perigee.Error) {
	if roster == nil {
		return nil, perigee.Errorf(perigee.ClassUnavailable, "the accounts of %s are not in use", s.opts.Name)
	}
	choices := roster.Choices()
	if s.opts.Email != "" {
		choices = slices.DeleteFunc(choices, func(c accounts.Choice) bool { return !strings.EqualFold(c.Email, s.opts.Email) })
	}
	usable := slices.DeleteFunc(slices.Clone(choices), func(c accounts.Choice) bool { return !c.Usable })
	s.sort(usable)
	for _, c := range usable {
		emails = append(emails, c.Email)
	}
	if len(emails) == 0 {
		why = s.explain(choices)
	}
	return emails, why
}

// sort puts the best choice first. An account that the owner prefers from now on is as good as new.
func (s *SignIn) sort(choices []accounts.Choice) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, preferred := s.clock.Now(), ""
	for _, c := range choices {
		if c.Preferred {
			preferred = c.Email
		}
	}
	if preferred != s.preferred {
		delete(s.refused, preferred)
	}
	s.preferred = preferred
	maps.DeleteFunc(s.refused, func(_ string, until steadyclock.Instant) bool { return until <= now })
	rank := func(c accounts.Choice) int {
		switch _, refused := s.refused[c.Email]; {
		case refused && c.Email == s.current.Email:
			return 5
		case refused:
			return 4
		case c.Preferred:
			return 0
		case c.Email == s.current.Email:
			return 1
		case !c.Cooling:
			return 2
		}
		return 3
	}
	slices.SortStableFunc(choices, func(a, b accounts.Choice) int { return rank(a) - rank(b) })
}

// explain is the reason why none of the accounts can be used.
func (s *SignIn) explain(choices []accounts.Choice) *perigee.Error {
	login := "run perigee login --upstream " + s.opts.Name
	switch {
	case len(choices) == 0 && s.opts.Email != "":
		return perigee.Errorf(perigee.ClassUnauthenticated, "%s has no account %s", s.opts.Name, s.opts.Email).
			WithHint("%s --email %s", login, s.opts.Email)
	case len(choices) == 0:
		return perigee.Errorf(perigee.ClassUnauthenticated, "no account is signed in to %s", s.opts.Name).WithHint("%s", login)
	case len(choices) == 1:
		reason, _, _ := strings.Cut(choices[0].Why, "; run `perigee login`") // the hint has it with the upstream
		return perigee.Errorf(perigee.ClassUnauthenticated, "%s cannot be used: %s", choices[0].Email, reason).
			WithHint("%s, or see perigee account list", login)
	}
	return perigee.Errorf(perigee.ClassUnauthenticated, "no account of %s can be used", s.opts.Name).
		WithHint("%s, or see perigee account list", login)
}

// publish takes over a credential, or the reason why there is none, and reports it if it differs from the last one.
func (s *SignIn) publish(got accounts.Credential, why *perigee.Error) {
	change := Change{Credential: public(got)}
	if why != nil {
		change.Reason = why
	}
	s.mu.Lock()
	now, before := s.clock.Now(), s.current
	sameAccount, sameToken := got.Email == before.Email, got.Access == before.Access
	if sameAccount && !sameToken {
		s.replaced = now
	} else if !sameAccount {
		s.replaced = 0
	}
	change.Account = got.Email != "" && !sameAccount
	differs := !sameAccount || !sameToken || got.Project != before.Project || !sameReason(why, s.reason)
	s.current, s.renew, s.reason = got, now+got.Renew.Sub(s.opts.Now()), why
	s.reporting = differs
	s.mu.Unlock()
	defer s.decide(nil) // callers that wait can rely on the change
	switch {
	case !differs:
		return
	case why != nil:
		s.opts.Logger.Warn("no account for the language server", "upstream", s.opts.Name, "reason", why)
	case change.Account:
		s.opts.Logger.Info("language server signed in", "upstream", s.opts.Name, "account", got.Email)
	}
	s.opts.Changed(change)
}

func sameReason(a, b *perigee.Error) bool {
	return a == b || a != nil && b != nil && a.Error() == b.Error()
}

// nextChoice is how long it takes until the token has to be renewed or a refused account may be used again; 0: neither will happen.
func (s *SignIn) nextChoice() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	var next time.Duration
	at := func(instant steadyclock.Instant, least time.Duration) {
		if wait := max(instant-now, least); next == 0 || wait < next {
			next = wait
		}
	}
	if s.current.Email != "" {
		at(s.renew, retryFirst) // one that is due is being renewed, and the feed reports the new token
	}
	for _, until := range s.refused {
		at(until, time.Millisecond)
	}
	return next
}
