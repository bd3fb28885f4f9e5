package daemon

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"perigee"
	"perigee/internal/account"
	"perigee/internal/config"
	"perigee/internal/oauth"
	"perigee/internal/sqlstore"
	"perigee/internal/upstream/antigravity"
)

// A roster is the accounts of one upstream: what the store knows of them, and what the pool makes of it.
type roster struct {
	upstream   string
	store      *sqlstore.Accounts
	client     *oauth.Client
	guard      *oauth.Guard // of all accounts, as they share the client
	discoverer *oauth.Discoverer
	pool       *account.Pool
	logger     *slog.Logger
	now        func() time.Time

	askQuota   func(ctx context.Context, s account.Source) ([]perigee.QuotaRow, error)
	watchQuota bool // look at it while accounts are used
	base       context.Context
	cancel     context.CancelFunc
	background sync.WaitGroup

	stops    stops
	loading  sync.Mutex // held while the store is read and the result applied: loads take effect in the order in which they read
	mu       sync.Mutex // held for memory only: every call that gets an access token may need it
	sources  []*source
	retired  []*source           // removed, or signed in again since; not for long
	readings map[string]*reading // by email
}

// newRoster returns the accounts of an upstream, as they are stored now.
func newRoster(ctx context.Context, u config.Upstream, store *sqlstore.Accounts, transport http.RoundTripper, opts Options) (*roster, error) {
	r := &roster{upstream: u.Name, store: store, logger: opts.Logger, now: opts.Now, readings: map[string]*reading{}}
	r.base, r.cancel = context.WithCancel(context.WithoutCancel(ctx))
	r.stops.keep = r.keepState
	r.client, r.guard = newSignIn(u, transport, opts), oauth.NewGuard(opts.Now)
	r.discoverer = newDiscoverer(u, transport, opts)
	r.pool = account.NewPool(account.Options{
		Selection: u.Selection, Pools: u.Pools, MaxWait: u.MaxWait, SoftQuota: u.SoftQuota, Concurrency: u.Concurrency,
		Now: opts.Now, Logger: opts.Logger, OnState: r.stops.add, Look: r.look, Store: store, Sessions: store.Sessions(u.Name),
	})
	return r, r.load(ctx)
}

// restoreSessions lets the pool know which sessions are with which account, where no other process adds to them: then no call has
// to look for one. Without it, each new session is looked up once.
func (r *roster) restoreSessions(ctx context.Context) {
	if r.store.Shared() {
		return
	}
	known, err := r.store.Sessions(r.upstream).Known(ctx, account.MaxSessions)
	if err != nil {
		r.logger.Debug("sessions not restored", "upstream", r.upstream, "error", err)
		return
	}
	for _, k := range slices.Backward(known) {
		r.pool.RestoreSession(k.Session, k.Family, k.Email, k.Pool)
	}
	r.pool.SessionsRestored()
}

// newSignIn is the way to the sign-in server that an upstream is configured for.
func newSignIn(u config.Upstream, transport http.RoundTripper, opts Options) *oauth.Client {
	options := oauth.Options{
		AuthURL: u.OAuth.AuthURL, TokenURL: u.OAuth.TokenURL, UserinfoURL: u.OAuth.UserinfoURL,
		ClientID: u.OAuth.ClientID, ClientSecret: u.OAuth.ClientSecret, UserAgent: "perigee/" + opts.Version,
		Transport: transport, Now: opts.Now, Logger: opts.Logger,
	}
	if u.AcceptTermsRisk { // signing in as the IDE is what the terms are about
		options.Installed = opts.installed
	}
	return oauth.NewClient(options)
}

func newDiscoverer(u config.Upstream, transport http.RoundTripper, opts Options) *oauth.Discoverer {
	return oauth.NewDiscoverer(oauth.DiscoverOptions{
		Endpoints: u.Endpoints, UserAgent: userAgent(u, opts.Version), Transport: transport, Now: opts.Now, Logger: opts.Logger,
	})
}

// userAgent is how an upstream calls itself.
func userAgent(u config.Upstream, version string) string {
	if u.UserAgent != "" {
		return u.UserAgent
	}
	return antigravity.UserAgent(u.ClientVersion, version)
}

// load makes the pool know what the store knows. Accounts that are still the same keep their tokens.
func (r *roster) load(ctx context.Context) error { return r.loadWith(ctx, (*source).adopt) }

// loadWith reads the accounts and then updates the pool; adopt returns the source for an account that is known already. The
// store is read outside r.mu, so one that is slow holds up no call.
func (r *roster) loadWith(ctx context.Context, adopt func(*source, perigee.SignIn) *source) error {
	r.loading.Lock()
	defer r.loading.Unlock()
	list, err := r.store.SignIns(ctx, r.upstream)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	old, removed := byEmail(r.sources), byEmail(r.retired)
	r.sources = nil
	for _, signIn := range list {
		s := old[signIn.Email]
		switch {
		case s != nil:
			s = adopt(s, signIn)
		case removed[signIn.Email] != nil:
			// Calls may still be waiting for its token, and it would refresh the new sign-in, too.
			s = removed[signIn.Email].giveWay(signIn, true)
		default:
			s = newSource(r, signIn)
		}
		r.sources = append(r.sources, s)
	}
	r.pool.SetSources(asLendable(r.sources))
	r.retire(old)
	return nil
}

// retire lets those go who are no longer among the sources. The lock is held.
func (r *roster) retire(old map[string]*source) {
	r.retired = slices.DeleteFunc(r.retired, func(s *source) bool { return slices.Contains(r.sources, s) })
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
			r.guard.Reset() // what was refused before says nothing about a new sign-in
		}
	}
	excess := len(r.retired) - maxRetired
	r.retired = slices.DeleteFunc(r.retired, func(s *source) bool {
		excess--
		return (s.replaced || excess >= 0 || r.now().Sub(s.left).Abs() >= retiredFor) && s.tokens.Retire()
	})
}

// Those who were removed are kept for a while, in case that somebody adds them again while calls are still using them; those
// who were replaced, only until they have nothing under way.
const (
	retiredFor = 10 * time.Minute
	maxRetired = 64
)

// byEmail finds sources; of several with the same address the last.
func byEmail(sources []*source) map[string]*source {
	m := make(map[string]*source, len(sources))
	for _, s := range sources {
		m[s.SignIn().Email] = s
	}
	return m
}

// everybody returns the accounts.
func (r *roster) everybody() []*source {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.sources)
}

func asLendable(sources []*source) []account.Source {
	list := make([]account.Source, len(sources))
	for i, s := range sources {
		list[i] = s
	}
	return list
}

// standing is how the accounts stand, by their addresses. Whatever is said about them comes from here.
func (r *roster) standing() map[string]account.Standing {
	list := r.pool.Status()
	m := make(map[string]account.Standing, len(list))
	for _, a := range list {
		m[a.Email] = a
	}
	return m
}

// tell lets an account know how it was stored, and with it whoever lends it.
func (r *roster) tell(kept perigee.SignIn) {
	for _, s := range r.everybody() {
		if s.SignIn().Email == kept.Email {
			s.learn(kept)
			r.pool.Learn(s)
		}
	}
}

var errNoAccount = errors.New("there is no such account")

// changeTime is how long an edit is tried while others are changing the same account. One of them succeeds each time, so only
// who is slower than many others needs so long.
const changeTime = 10 * time.Second

// change edits an account as it is stored, and returns what it has become. An edit that returns false changes nothing.
func change(ctx context.Context, store perigee.AccountStore, upstream, email string, edit func(*perigee.SignIn) bool) (perigee.SignIn, error) {
	began := time.Now()
	for pause := time.Millisecond; ; pause = min(2*pause, 32*time.Millisecond) {
		changed, err := tryChange(ctx, store, upstream, email, edit)
		if !errors.Is(err, perigee.ErrAccountChanged) {
			return changed, err
		}
		if time.Since(began) >= changeTime {
			return perigee.SignIn{}, perigee.Errorf(perigee.ClassUnavailable, "others keep changing the account %s: %w", email, err).WithNext("try again")
		}
		select {
		case <-time.After(rand.N(pause)): // so that those who collide do not do so in step
		case <-ctx.Done():
			return perigee.SignIn{}, ctx.Err()
		}
	}
}

// tryChange is one round of change, in vain when somebody else was faster.
func tryChange(ctx context.Context, store perigee.AccountStore, upstream, email string, edit func(*perigee.SignIn) bool) (perigee.SignIn, error) {
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

// close ends what goes on in the background. Calls that have an account keep it.
func (r *roster) close() {
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
