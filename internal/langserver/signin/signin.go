// Package signin keeps a language server signed in with one account of an upstream at a time. A
// call that has leased an account calls Use, and the language server has that account until the
// call has been sent. Between calls the account stays: its access token is renewed before it ends,
// and another account replaces it when the owner prefers one, or when it cannot be used any more.
// Which account a call gets is not decided here: package pool does that for all kinds of
// upstreams.
package signin

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"perigee"
	"perigee/internal/account/roster"
	"perigee/internal/lib/steadyclock"
)

// Accounts are the accounts of an upstream. roster.Roster implements it.
type Accounts interface {
	Choices() []roster.Choice
	Credential(ctx context.Context, email string) (roster.Credential, error)
	// Refusal returns the reason why none of the accounts, or the named one, can be used. It
	// returns nil if one can, or if there is none.
	Refusal(email string) error
}

// A Feed reports changes of accounts. roster.Feed implements it.
type Feed interface {
	Subscribe(notify func(upstream string)) (cancel func())
}

var (
	_ Accounts = (*roster.Roster)(nil)
	_ Feed     = (*roster.Feed)(nil)
)

// A Change is a new credential of the language server. If there is none, Email is empty.
type Change struct {
	roster.Credential
	Account bool // the account differs from the one before, or there was none
}

// Options configure a SignIn.
type Options struct {
	Name string // of the upstream that has the accounts, for hints
	// the accounts in force, which a reload may replace; returns nil if there are none
	Accounts func() Accounts
	Feed     Feed         // changes of all accounts; only those of Name count
	Email    string       // the only account to use; empty for any
	Changed  func(Change) // called for each change, one at a time
	Now      func() time.Time
	Logger   *slog.Logger
}

// How long a SignIn waits.
const (
	retryFirst = 20 * time.Second // after a token could not be renewed; doubles with each further failure
	retryMax   = 5 * time.Minute
)

// A SignIn signs one language server in. All methods may be called concurrently.
type SignIn struct {
	opts  Options
	clock *steadyclock.Clock
	wake  chan struct{} // a change may be due

	cancel context.CancelFunc
	done   chan struct{}

	changing sync.Mutex // held while a credential is read and reported: changes are reported in the order in which they take effect

	mu        sync.Mutex
	current   roster.Credential
	reason    *perigee.Error      // set if there is no credential
	none      bool                // there is none because no account can be used
	failure   error               // the credential could not be renewed
	renew     steadyclock.Instant // when it has to be renewed
	preferred string              // by the owner
	wanted    string              // the same, until it is in use
	decided   chan struct{}       // closed after the next choice, for callers that wait for it
	reporting bool                // Changed has not returned yet, and there was no credential before
	users     users
}

// New returns a SignIn without a credential.
func New(opts Options) *SignIn {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	return &SignIn{opts: opts, clock: steadyclock.New(opts.Now), wake: make(chan struct{}, 1), done: make(chan struct{}),
		decided: make(chan struct{})}
}

// Start chooses an account in the background, and keeps it current until Close.
func (s *SignIn) Start() {
	var ctx context.Context
	ctx, s.cancel = context.WithCancel(context.Background())
	unsubscribe := s.opts.Feed.Subscribe(func(upstream string) {
		if upstream == s.opts.Name {
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

// Close ends the work of Start. Changed is not called after it returns.
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

// Current returns the credential, or the reason why there is none. It waits for the first choice,
// for an account that has just become usable, and for a token that is overdue, for example because
// the machine was suspended.
func (s *SignIn) Current(ctx context.Context) (roster.Credential, error) {
	for waited := 0; ; {
		current, next, err := s.look(s.hasUsable())
		// the first choice that it waits for may have started before the token was overdue
		if next == nil || waited == 2 {
			return current, err
		}
		if err != nil {
			waited++
			s.Check()
		}
		select {
		case <-next:
		case <-s.done:
			return roster.Credential{}, errStopping
		case <-ctx.Done():
			return roster.Credential{}, ctx.Err()
		}
	}
}

var errStopping = perigee.Errorf(perigee.ClassUnavailable, "the language server is being stopped")

// look returns the credential or the reason why there is none. If neither is known, it returns a
// channel that is closed after the next choice. Without an error, a change is on its way.
func (s *SignIn) look(found bool) (c roster.Credential, next <-chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.reason != nil && found:
		return c, s.decided, s.reason
	case s.reason != nil:
		return c, nil, s.reason
	case s.reporting:
		return c, s.decided, nil
	case s.current.Email != "" && s.opts.Now().Before(s.current.Expiry):
		return s.current, nil, nil
	}
	if err = s.failure; err == nil {
		err = perigee.Errorf(perigee.ClassUnavailable, "no account has been chosen yet")
	}
	return c, s.decided, err
}

// hasUsable reports whether there is an account that can be used, although the last choice has
// found none.
func (s *SignIn) hasUsable() bool {
	s.mu.Lock()
	none := s.none
	s.mu.Unlock()
	accounts := s.opts.Accounts()
	return none && accounts != nil && slices.ContainsFunc(s.choices(accounts), func(c roster.Choice) bool { return c.Usable })
}

// run chooses after each change, and when the token has to be renewed.
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

// choose takes the first account that has a token. It returns the time after which to choose again
// without a change, 0 for never, and whether a token could not be obtained for a temporary reason.
func (s *SignIn) choose(ctx context.Context) (next time.Duration, failed bool) {
	accounts := s.opts.Accounts()
	list, why := s.ordered(accounts)
	var failure error // of the best account
	for _, email := range list {
		got, err := accounts.Credential(ctx, email) // which may take long
		if ctx.Err() != nil {
			return 0, false
		}
		if err == nil {
			err = s.change(ctx, accounts, got.Email, slog.LevelInfo)
		}
		if err == nil {
			return s.nextChoice(), failure != nil && !final(failure)
		}
		s.opts.Logger.Debug("no access token", "upstream", s.opts.Name, "account", email, "error", err)
		if !final(err) && s.isCurrent(email) {
			s.decide(err)
			return 0, true
		}
		if failure == nil || final(failure) {
			failure = err
		}
	}
	if failure != nil && !final(failure) && slices.Contains(list, s.inUse()) {
		s.decide(failure) // the token in use has ended, but there is no better one
		return 0, true
	}
	if failure != nil {
		// otherwise the accounts report the reason by now
		if _, why = s.ordered(accounts); why == nil {
			why = perigee.AsError(failure)
		}
	}
	s.signOut(why, len(list) == 0)
	return s.nextChoice(), failure != nil && !final(failure)
}

func (s *SignIn) inUse() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current.Email
}

// decide ends a choice. The error is the reason why the credential could not be renewed, or nil.
func (s *SignIn) decide(failure error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failure, s.reporting = failure, false
	close(s.decided)
	s.decided = make(chan struct{})
}

// final reports whether only the owner can fix the cause of an error.
func final(err error) bool {
	switch perigee.AsError(err).Class {
	case perigee.ClassUnauthenticated, perigee.ClassVerification, perigee.ClassForbidden, perigee.ClassNotFound:
		return true
	}
	return false
}

// isCurrent reports whether an account has a token that can be used while it cannot be renewed.
func (s *SignIn) isCurrent(email string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return email == s.current.Email && s.opts.Now().Before(s.current.Expiry)
}

// ordered lists the accounts that may be used, the best first: one that the owner newly prefers,
// the one in use, the preferred one, accounts without a cooldown, accounts with one, and last
// accounts with access tokens that are refused. If there are none, it returns the reason.
func (s *SignIn) ordered(accounts Accounts) (emails []string, why *perigee.Error) {
	if accounts == nil {
		return nil, perigee.Errorf(perigee.ClassUnavailable, "the accounts of %s are not in use", s.opts.Name)
	}
	choices := s.choices(accounts)
	s.notePreferred(choices)
	usable := slices.DeleteFunc(slices.Clone(choices), func(c roster.Choice) bool { return !c.Usable })
	s.sort(usable)
	for _, c := range usable {
		emails = append(emails, c.Email)
	}
	if len(emails) == 0 {
		why = s.explain(accounts, choices)
	}
	return emails, why
}

// choices lists the accounts that the configuration allows.
func (s *SignIn) choices(accounts Accounts) []roster.Choice {
	return slices.DeleteFunc(accounts.Choices(), func(c roster.Choice) bool {
		return s.opts.Email != "" && !strings.EqualFold(c.Email, s.opts.Email)
	})
}

// notePreferred records which account the owner prefers, and whether that is new.
func (s *SignIn) notePreferred(choices []roster.Choice) {
	preferred := ""
	for _, c := range choices {
		if c.Preferred {
			preferred = c.Email
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if preferred != s.preferred && s.current.Email != "" {
		s.wanted = preferred
	}
	s.preferred = preferred
}

// sort puts the best choice first.
func (s *SignIn) sort(choices []roster.Choice) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rank := func(c roster.Choice) int {
		switch {
		case c.Refused:
			return 5
		case c.Email == s.wanted:
			return 0
		case c.Email == s.current.Email:
			return 1
		case c.Preferred && !c.Cooling:
			return 2
		case !c.Cooling:
			return 3
		}
		return 4
	}
	slices.SortStableFunc(choices, func(a, b roster.Choice) int { return rank(a) - rank(b) })
}

// explain returns the reason why none of the accounts can be used.
func (s *SignIn) explain(accounts Accounts, choices []roster.Choice) *perigee.Error {
	login := "run perigee login --upstream " + s.opts.Name
	switch {
	case len(choices) == 0 && s.opts.Email != "":
		return perigee.Errorf(perigee.ClassUnauthenticated, "%s has no account %s", s.opts.Name, s.opts.Email).
			WithHint("%s --email %s", login, s.opts.Email)
	case len(choices) == 0:
		return perigee.Errorf(perigee.ClassUnauthenticated, "no account is signed in to %s", s.opts.Name).WithHint("%s", login)
	}
	email := "" // any
	if s.opts.Email != "" {
		email = choices[0].Email
	}
	if err := accounts.Refusal(email); err != nil {
		return perigee.AsError(err)
	}
	return perigee.Errorf(perigee.ClassUnauthenticated, "no account of %s can be used", s.opts.Name).
		WithHint("%s, or see perigee account list", login)
}

// change reads the current credential of an account and applies it, unless a call uses another
// account: then the accounts are checked again after that call. level is the level of the log line
// about another account.
func (s *SignIn) change(ctx context.Context, accounts Accounts, email string, level slog.Level) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	if s.postpone(email) {
		return nil
	}
	got, err := accounts.Credential(ctx, email)
	if err == nil {
		s.publish(got, nil, level)
	}
	return err
}

// signOut removes the credential, unless a call still uses one. none means that no account can be
// used.
func (s *SignIn) signOut(why *perigee.Error, none bool) {
	s.changing.Lock()
	defer s.changing.Unlock()
	if s.postpone("") {
		return
	}
	s.mu.Lock()
	s.none = none
	s.mu.Unlock()
	s.publish(roster.Credential{}, why, slog.LevelWarn)
}

// publish sets a credential, or the reason why there is none, and reports it if it differs from
// the last one. s.changing is held.
func (s *SignIn) publish(got roster.Credential, why *perigee.Error, level slog.Level) {
	change := Change{Credential: got}
	s.mu.Lock()
	now, before := s.clock.Now(), s.current
	change.Account = got.Email != "" && got.Email != before.Email
	differs := got.Email != before.Email || got.Access != before.Access || got.Project != before.Project || !sameReason(why, s.reason)
	s.current, s.renew, s.reason = got, now+got.Renew.Sub(s.opts.Now()), why
	s.reporting, s.none = differs && before.Email == "", s.none && why != nil
	if got.Email == s.wanted {
		s.wanted = ""
	}
	s.mu.Unlock()
	defer s.decide(nil) // callers that wait can rely on the change
	switch {
	case !differs:
		return
	case why != nil:
		s.opts.Logger.Log(context.Background(), level, "no account for the language server", "upstream", s.opts.Name, "reason", why)
	case change.Account:
		s.opts.Logger.Log(context.Background(), level, "language server signed in", "upstream", s.opts.Name, "account", got.Email)
	}
	s.opts.Changed(change)
}

func sameReason(a, b *perigee.Error) bool {
	return a == b || a != nil && b != nil && a.Error() == b.Error()
}

// nextChoice returns the time until the token has to be renewed, or 0 if there is none. A token
// that is due is being renewed already, and the feed reports the new one.
func (s *SignIn) nextChoice() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current.Email == "" {
		return 0
	}
	return max(s.renew-s.clock.Now(), retryFirst)
}
