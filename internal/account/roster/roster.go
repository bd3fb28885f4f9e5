// Package roster manages the accounts of upstreams: their sign-ins in the store, access tokens,
// projects and quota, and the owner's commands for them. It also reads account files, in five
// formats that are recognized by their content, and writes one of these. The account pool chooses
// among the accounts; the daemon builds a Roster for each upstream that has accounts.
package roster

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"perigee"
	"perigee/internal/account/oauth"
	"perigee/internal/account/pool"
	"perigee/internal/store/config"
	"perigee/internal/store/sqlstore"
)

// Options of a Roster, and of a Login.
type Options struct {
	Version   string            // of perigee
	UserAgent string            // for requests to the gateway
	Transport http.RoundTripper // to the sign-in server and the gateway
	Feed      *Feed             // for changes; nil if there is none
	// Installed is the IDE with the OAuth client to use if none is configured; nil if there is
	// none.
	Installed *oauth.Installed
	Now       func() time.Time
	Logger    *slog.Logger
}

// A Roster holds the accounts of one upstream: their state in the store and in the pool.
type Roster struct {
	upstream   string
	store      *sqlstore.Accounts
	client     *oauth.Client
	guard      *oauth.Guard // of all accounts, as they share the client
	discoverer *oauth.Discoverer
	pool       *pool.Pool
	logger     *slog.Logger
	now        func() time.Time

	quotas     QuotaReporter
	cli        bool // the pool of the CLI is used as well
	watchQuota bool // read quotas while accounts are used
	base       context.Context
	cancel     context.CancelFunc
	background sync.WaitGroup

	feed  *Feed
	stops queue // states on their way to the store
	// loading is held while the store is read and the result is applied, so that loads take effect
	// in the order in which they read.
	loading  sync.Mutex
	mu       sync.Mutex // held for memory only: every call that gets an access token may need it
	sources  []*Source
	retired  []*Source           // removed, or signed in again since; not for long
	readings map[string]*reading // by email
	history  history
}

// New returns the accounts of an upstream, as currently stored.
func New(ctx context.Context, u config.Upstream, store *sqlstore.Accounts, opts Options) (*Roster, error) {
	r := &Roster{upstream: u.Name, store: store, logger: opts.Logger, now: opts.Now, readings: map[string]*reading{}}
	r.base, r.cancel = context.WithCancel(context.WithoutCancel(ctx))
	r.feed, r.stops.handle = opts.Feed, r.storeState
	r.cli = slices.Contains(u.Pools, pool.PoolCLI)
	r.client, r.guard = newSignIn(u, opts), oauth.NewGuard(opts.Now)
	r.discoverer = newDiscoverer(u, opts)
	r.pool = pool.New(pool.Options{
		Selection: u.Selection, Pools: u.Pools, MaxWait: u.MaxWait, SoftQuota: u.SoftQuota, Concurrency: u.Concurrency,
		Now: opts.Now, Logger: opts.Logger, OnState: r.stops.add, Look: r.look, Store: store, Sessions: store.Sessions(u.Name),
	})
	return r, r.load(ctx)
}

// RestoreSessions loads the accounts of all sessions into the pool, if no other process adds to
// them: then no call has to look for one. Without it, each new session is looked up once.
func (r *Roster) RestoreSessions(ctx context.Context) {
	if r.store.Shared() {
		return
	}
	known, err := r.store.Sessions(r.upstream).Known(ctx, pool.MaxSessions)
	if err != nil {
		r.logger.Debug("sessions not restored", "upstream", r.upstream, "error", err)
		return
	}
	for _, k := range slices.Backward(known) {
		r.pool.RestoreSession(k.Session, k.Family, k.Email, k.Pool)
	}
	r.pool.SessionsRestored()
}

// newSignIn returns a client of the sign-in server that is configured for an upstream.
func newSignIn(u config.Upstream, opts Options) *oauth.Client {
	options := oauth.Options{
		AuthURL: u.OAuth.AuthURL, TokenURL: u.OAuth.TokenURL, UserinfoURL: u.OAuth.UserinfoURL,
		ClientID: u.OAuth.ClientID, ClientSecret: u.OAuth.ClientSecret, UserAgent: "perigee/" + opts.Version,
		Transport: opts.Transport, Now: opts.Now, Logger: opts.Logger,
	}
	if u.AcceptTermsRisk { // the terms are about signing in as the IDE
		options.Installed = opts.Installed
	}
	return oauth.NewClient(options)
}

func newDiscoverer(u config.Upstream, opts Options) *oauth.Discoverer {
	return oauth.NewDiscoverer(oauth.DiscoverOptions{
		Endpoints: u.Endpoints, UserAgent: opts.UserAgent, Transport: opts.Transport, Now: opts.Now, Logger: opts.Logger,
	})
}

// Upstream returns the name of the upstream that the accounts are for.
func (r *Roster) Upstream() string { return r.upstream }

// Pool returns the pool that leases the accounts.
func (r *Roster) Pool() *pool.Pool { return r.pool }

// SignIns returns the accounts as last read from the store.
func (r *Roster) SignIns() []perigee.SignIn {
	sources := r.all()
	list := make([]perigee.SignIn, len(sources))
	for i, s := range sources {
		list[i] = s.SignIn()
	}
	return list
}

// Secrets returns the refresh tokens and the access tokens of all accounts, for a redactor.
func (r *Roster) Secrets() (refresh, access []perigee.Secret) {
	for _, s := range r.all() {
		one, other := s.tokens.Secrets()
		refresh, access = append(refresh, one), append(access, other)
	}
	return refresh, access
}

// load updates the pool from the store. Accounts that are still the same keep their tokens.
func (r *Roster) load(ctx context.Context) error { return r.loadWith(ctx, (*Source).update) }

// loadWith reads the accounts and then updates the pool; update returns the source for an account
// that is known already. The store is read outside r.mu, so one that is slow holds up no call.
func (r *Roster) loadWith(ctx context.Context, update func(*Source, perigee.SignIn) *Source) error {
	r.loading.Lock()
	defer r.loading.Unlock()
	list, err := r.store.SignIns(ctx, r.upstream)
	if err != nil {
		return err
	}
	before := visibleOf(r.all())
	old := r.replaceSources(list, update)
	sources := r.all()
	r.pool.SetSources(asPoolSources(sources))
	r.retire(old)
	if !maps.Equal(before, visibleOf(sources)) {
		r.feed.publish(r.upstream)
	}
	return nil
}

// replaceSources replaces the sources by those for list, and returns the previous ones by email.
func (r *Roster) replaceSources(list []perigee.SignIn, update func(*Source, perigee.SignIn) *Source) (old map[string]*Source) {
	r.mu.Lock()
	defer r.mu.Unlock()
	old, removed := byEmail(r.sources), byEmail(r.retired)
	r.sources = nil
	for _, signIn := range list {
		s := old[signIn.Email]
		switch {
		case s != nil:
			s = update(s, signIn)
		case removed[signIn.Email] != nil:
			// Calls may still be waiting for its token, and it would refresh the new sign-in, too.
			s = removed[signIn.Email].replaceWith(signIn, true)
		default:
			s = newSource(r, signIn)
		}
		r.sources = append(r.sources, s)
	}
	return old
}

// retire closes the sources that are no longer in use.
func (r *Roster) retire(old map[string]*Source) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.retired = slices.DeleteFunc(r.retired, func(s *Source) bool { return slices.Contains(r.sources, s) })
	now := byEmail(r.sources)
	for email, s := range old {
		if now[email] != s {
			delete(r.readings, email) // it may be another sign-in by now
			s.left = r.now()
			r.retired = append(r.retired, s)
		}
	}
	for email, s := range now {
		if old[email] != s {
			r.guard.Reset() // earlier refusals do not apply to a new sign-in
		}
	}
	excess := len(r.retired) - maxRetired
	r.retired = slices.DeleteFunc(r.retired, func(s *Source) bool {
		excess--
		return (s.replaced || excess >= 0 || r.now().Sub(s.left).Abs() >= retiredFor) && s.tokens.Retire()
	})
}

// Sources of removed accounts are kept for a while: an account may be added again while calls still
// use its source. Replaced ones are kept only until their refresh has ended.
const (
	retiredFor = 10 * time.Minute
	maxRetired = 64
)

// byEmail finds sources; of several with the same address the last.
func byEmail(sources []*Source) map[string]*Source {
	m := make(map[string]*Source, len(sources))
	for _, s := range sources {
		m[s.SignIn().Email] = s
	}
	return m
}

// all returns the accounts.
func (r *Roster) all() []*Source {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.sources)
}

func asPoolSources(sources []*Source) []pool.Source {
	list := make([]pool.Source, len(sources))
	for i, s := range sources {
		list[i] = s
	}
	return list
}

// status returns the state of the accounts by email. Every report about accounts is derived from
// it.
func (r *Roster) status() map[string]pool.Status {
	list := r.pool.Status()
	m := make(map[string]pool.Status, len(list))
	for _, a := range list {
		m[a.Email] = a
	}
	return m
}

// applyStored updates the roster with an account that has been stored.
func (r *Roster) applyStored(kept perigee.SignIn) {
	for _, s := range r.all() {
		if s.SignIn().Email == kept.Email {
			s.adopt(kept)
			r.publishUpdate(s)
		}
	}
}

var errNoAccount = errors.New("there is no such account")

// changeTime is how long an edit is retried while other writers change the same account. One of
// them succeeds each time, so only a writer that is slower than many needs so long.
const changeTime = 10 * time.Second

// An editFunc edits an account. If it returns false, nothing is changed.
type editFunc = func(*perigee.SignIn) bool

// change edits a stored account, and returns the result.
func change(ctx context.Context, store perigee.AccountStore, upstream, email string, edit editFunc) (perigee.SignIn, error) {
	began := time.Now()
	for pause := time.Millisecond; ; pause = min(2*pause, 32*time.Millisecond) {
		changed, err := tryChange(ctx, store, upstream, email, edit)
		if !errors.Is(err, perigee.ErrAccountChanged) {
			return changed, err
		}
		if time.Since(began) >= changeTime {
			return perigee.SignIn{}, perigee.Errorf(perigee.ClassUnavailable, "other writers keep changing the account %s: %w", email, err).
				WithHint("try again")
		}
		select {
		case <-time.After(rand.N(pause)): // so that writers do not collide in step
		case <-ctx.Done():
			return perigee.SignIn{}, ctx.Err()
		}
	}
}

// tryChange is one round of change. It fails with perigee.ErrAccountChanged when another writer was
// faster.
func tryChange(ctx context.Context, store perigee.AccountStore, upstream, email string, edit editFunc) (perigee.SignIn, error) {
	s, found, err := store.SignIn(ctx, upstream, email)
	switch {
	case err != nil:
		return perigee.SignIn{}, err
	case !found:
		return perigee.SignIn{}, errNoAccount
	case !edit(&s):
		return s, nil
	}
	s.Generation, err = store.ChangeSignIn(ctx, s)
	return s, err
}

// Unusable returns why no account can be used now, without a call; empty if one can be used.
func (r *Roster) Unusable() string {
	accounts := r.pool.Status()
	if len(accounts) == 0 {
		return "no account is signed in"
	}
	usable := func(a pool.Status) bool {
		return a.Enabled && perigee.UsableState(a.State) && !slices.ContainsFunc(a.Cooldowns, pool.IsBreakerOpen)
	}
	if slices.ContainsFunc(accounts, usable) {
		return ""
	}
	return "no account can be used"
}

// Close stops the background work. Calls that have an account keep it.
func (r *Roster) Close() {
	r.mu.Lock()
	r.cancel() // nothing is begun in the background from here on
	all := slices.Concat(r.sources, r.retired)
	r.mu.Unlock()
	for _, s := range all {
		s.tokens.Close()
	}
	r.background.Wait()
	r.stops.close()
	r.pool.Close()
}
