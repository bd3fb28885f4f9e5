package daemon

import (
	"context"
	"log/slog"
	"net/http"
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
	discoverer *oauth.Discoverer
	pool       *account.Pool
	logger     *slog.Logger

	mu      sync.Mutex
	sources []*source
}

// newRoster returns the accounts of an upstream, as they are stored now.
func newRoster(ctx context.Context, u config.Upstream, store *sqlstore.Accounts, transport http.RoundTripper, opts Options) (*roster, error) {
	r := &roster{upstream: u.Name, store: store, logger: opts.Logger}
	r.client = newSignIn(u, transport, opts)
	r.discoverer = newDiscoverer(u, transport, opts)
	r.pool = account.NewPool(account.Options{
		Selection: u.Selection, Pools: u.Pools, MaxWait: u.MaxWait, SoftQuota: u.SoftQuota,
		Now: opts.Now, Logger: opts.Logger, OnState: r.stateChanged, Store: store,
	})
	return r, r.load(ctx)
}

// newSignIn is the way to the sign-in server that an upstream is configured for.
func newSignIn(u config.Upstream, transport http.RoundTripper, opts Options) *oauth.Client {
	return oauth.NewClient(oauth.Options{
		AuthURL: u.OAuth.AuthURL, TokenURL: u.OAuth.TokenURL, UserinfoURL: u.OAuth.UserinfoURL,
		ClientID: u.OAuth.ClientID, ClientSecret: u.OAuth.ClientSecret, UserAgent: "perigee/" + opts.Version,
		Transport: transport, Now: opts.Now, Logger: opts.Logger,
	})
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
func (r *roster) load(ctx context.Context) error {
	list, err := r.store.SignIns(ctx, r.upstream)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	old := map[string]*source{}
	for _, s := range r.sources {
		old[s.SignIn().Email] = s
	}
	r.sources = r.sources[:0:0]
	for _, signIn := range list {
		if s := old[signIn.Email]; s != nil && s.tokens.SignIn().Generation == signIn.Generation {
			delete(old, signIn.Email)
			r.sources = append(r.sources, s)
			continue
		}
		r.sources = append(r.sources, &source{roster: r, tokens: oauth.NewTokens(r.client, r.store, signIn)})
	}
	lendable := make([]account.Source, len(r.sources))
	for i, s := range r.sources {
		lendable[i] = s
	}
	r.pool.SetSources(lendable)
	for _, s := range old {
		go s.tokens.Close() // it may have to finish storing a token
	}
	return nil
}

// stateChanged keeps what the provider said about an account.
func (r *roster) stateChanged(email, state, reason string) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	list, err := r.store.SignIns(ctx, r.upstream)
	if err != nil {
		r.logger.Warn("the state of an account cannot be kept", "upstream", r.upstream, "error", err)
		return
	}
	for _, s := range list {
		if s.Email != email || s.State == state {
			continue
		}
		s.State, s.Reason = state, reason
		if _, err := r.store.ChangeSignIn(ctx, s); err != nil {
			r.logger.Warn("the state of an account cannot be kept", "upstream", r.upstream, "error", err)
		}
	}
}

func (r *roster) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.sources {
		s.tokens.Close()
	}
	r.pool.Close()
}

// A source is one account that can be lent.
type source struct {
	roster *roster
	tokens *oauth.Tokens

	mu      sync.Mutex
	project string // found out since the sign-in was read
}

// SignIn returns the account as it was last seen.
func (s *source) SignIn() perigee.SignIn {
	signIn := s.tokens.SignIn()
	s.mu.Lock()
	defer s.mu.Unlock()
	if signIn.ProjectID == "" {
		signIn.ProjectID = s.project
	}
	return signIn
}

// Token returns an access token. An account whose project nobody has asked for yet is asked for it first.
func (s *source) Token(ctx context.Context) (perigee.Secret, error) {
	token, err := s.tokens.Token(ctx)
	if err != nil || s.SignIn().ProjectID != "" {
		return token, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.project != "" {
		return token, nil
	}
	project, err := s.roster.discoverer.Discover(ctx, token, "", nil)
	if err != nil {
		return perigee.Secret{}, err
	}
	s.project = project.ID
	signIn := s.tokens.SignIn()
	signIn.ProjectID = project.ID
	if _, err := s.roster.store.ChangeSignIn(ctx, signIn); err != nil {
		s.roster.logger.Warn("the project of an account cannot be kept", "upstream", s.roster.upstream, "error", err)
	}
	return token, nil
}

// Refused says that the provider did not take a token.
func (s *source) Refused(token perigee.Secret) { s.tokens.Refused(token) }
