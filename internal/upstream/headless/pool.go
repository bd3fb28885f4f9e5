package headless

import (
	"context"
	"strings"

	"perigee"
	"perigee/internal/account/pool"
	"perigee/internal/adapt/models"
	"perigee/internal/adapt/providererr"
	"perigee/internal/langserver/signin"
	"perigee/internal/store/config"
)

// Accounts are the accounts of an upstream. roster.Roster implements it.
type Accounts interface {
	signin.Accounts
	Pool() *pool.Pool
	Unusable() string
	// Refused records that the provider refused an access token of an account, and reports whether
	// another token replaces it.
	Refused(email string, token perigee.Secret) (replaced bool)
}

// A leaser leases from the pool that all calls with these accounts use, so that the language
// server follows the same rules. It never leases from the quota of the command-line tool, because
// a language server does not make its requests.
type leaser struct{ server *Server }

func (p leaser) Acquire(req pool.Request) pool.Acquisition {
	list := p.server.opts.Accounts()
	if list == nil {
		return notInUse(p.server.opts.AccountsOf)
	}
	return acquisition{list.Pool().Acquire(p.server.within(req)), p.server}
}

// Within restricts a request to the accounts and quotas that the language server of an upstream
// can use.
func Within(u config.Upstream, req pool.Request) pool.Request {
	req.Email, req.Pool = strings.ToLower(u.Account), pool.PoolAntigravity
	return req
}

func (s *Server) within(req pool.Request) pool.Request { return Within(s.opts.Upstream, req) }

// notInUse is the name of an upstream that a reload has removed, so that its accounts are not in
// use.
type notInUse string

func (n notInUse) Next(context.Context) (pool.Lease, error) {
	return nil, perigee.Errorf(perigee.ClassUnavailable, "the accounts of %s are not in use", string(n))
}

type acquisition struct {
	pool.Acquisition
	server *Server
}

func (a acquisition) Next(ctx context.Context) (pool.Lease, error) {
	l, err := a.Acquisition.Next(ctx)
	if err != nil {
		return nil, err
	}
	return &lease{l, a.server}, nil
}

// A lease records which account the tokens of requests belong to: the language server is signed in
// with that account before it gets the request.
type lease struct {
	pool.Lease
	server *Server
}

func (l *lease) Token(ctx context.Context) (perigee.Secret, error) {
	token, err := l.Lease.Token(ctx)
	if err == nil {
		l.server.recordHolder(token, holder{email: l.Account().Email})
	}
	return token, err
}

func (l *lease) Refused(token perigee.Secret) {
	l.server.recordHolder(token, holder{email: l.Account().Email, refused: true})
	l.Lease.Refused(token)
}

func (l *lease) FindProject(ctx context.Context, refused string) bool {
	finder, ok := l.Lease.(pool.ProjectFinder)
	return ok && finder.FindProject(ctx, refused)
}

// A holder is the account that has an access token.
type holder struct {
	email   string
	refused bool // the provider has refused the token
}

// maxHolders is the maximum number of access tokens kept. In practice there are fewer: one per
// account, and the ones replaced recently.
const maxHolders = 1024

// recordHolder records the account of an access token. A later record replaces an earlier one,
// because a sign-in server may issue the same token again.
func (s *Server) recordHolder(token perigee.Secret, h holder) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holders.MaxEntries = maxHolders
	s.holders.Put(token, h)
}

// replaceToken replaces an access token that the cloud has refused to the language server itself,
// and signs the language server in with the new one, or with another account. It ignores tokens
// that perigee has not issued.
func (s *Server) replaceToken(token perigee.Secret) {
	s.mu.Lock()
	h, ok := s.holders.Get(token)
	if ok {
		s.lastRefused = token
	}
	s.mu.Unlock()
	list := s.opts.Accounts()
	if !ok || list == nil {
		return
	}
	if list.Refused(h.email, token) {
		s.recordHolder(token, holder{email: h.email, refused: true})
		if c, err := list.Credential(s.base, h.email); err == nil {
			s.recordHolder(c.Access, holder{email: h.email}) // it may be the same token
		}
	}
	s.signIn.Check()
}

// use signs the language server in with the account that has an access token, until release is
// called.
func (s *Server) use(ctx context.Context, token string) (release func(), err error) {
	s.mu.Lock()
	h, ok := s.holders.Get(perigee.NewSecret(token))
	s.mu.Unlock()
	if !ok {
		return nil, perigee.Errorf(perigee.ClassInternal, "the account of a request for the language server is not known")
	}
	return s.signIn.Use(ctx, h.email)
}

// isOutdated reports whether the language server must stop using an access token: it belongs to
// another account than the one that the language server is signed in with, or the provider has
// refused it. It returns false for tokens that perigee has not issued.
func (s *Server) isOutdated(token string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	h, ok := s.holders.Get(perigee.NewSecret(token))
	return ok && (h.refused || h.email != s.account.Email)
}

// restartStuck restarts the process, because it keeps using an outdated access token.
func (s *Server) restartStuck() {
	if process := s.supervisor(); process != nil {
		process.RestartIdle("it does not use the account that it has been given")
	}
}

// refusal returns the error of calls for a model while no account can be used. It returns nil if
// one can be used, or if there is no account.
func (s *Server) refusal(model string) error {
	if list := s.opts.Accounts(); list != nil {
		return list.Pool().Refusal(s.within(pool.Request{Model: model}))
	}
	return nil
}

// signInFor signs the language server in with an account that has quota for a model, before its
// agent is called. The lease is released at once: the agent works for minutes, and calls with
// other accounts continue during that time.
func (s *Server) signInFor(ctx context.Context, model string) error {
	family := models.Of(model).Family
	if family == models.Other {
		return nil // the agent chooses the model, or has its own name for it
	}
	l, err := leaser{s}.Acquire(pool.Request{Model: model, Family: family}).Next(ctx)
	if err != nil {
		return err
	}
	// the outcome of the ask is no evidence about the account
	defer l.Done(&providererr.Diagnosis{Scope: providererr.ScopeNone})
	release, err := s.signIn.Use(ctx, l.Account().Email)
	if err == nil {
		release()
	}
	return err
}
