package headless

import (
	"context"

	"perigee"
	"perigee/internal/account"
	"perigee/internal/langserver/signin"
	"perigee/internal/providererr"
)

// pool leases the account that the language server is signed in with. If the provider refuses it, the next lease is of the account that
// takes its place, if there is one.
type pool struct{ server *Server }

func (p pool) Acquire(account.Request) account.Acquisition { return &acquisition{server: p.server} }

// An acquisition leases each account once.
type acquisition struct {
	server *Server
	used   map[string]bool
}

// errNoOther says that there is no account that was not tried.
var errNoOther = perigee.Errorf(perigee.ClassUnavailable, "there is no other account")

func (a *acquisition) Next(ctx context.Context) (account.Lease, error) {
	look := a.server.signIn.Current
	if a.used != nil {
		look = a.server.signIn.Next
	} else {
		a.used = map[string]bool{}
	}
	c, err := look(ctx)
	switch {
	case err != nil:
		return nil, err
	case a.used[c.Email]:
		return nil, errNoOther
	}
	a.used[c.Email] = true
	return &lease{server: a.server, credential: c}, nil
}

// A lease is the language server's account in use by a call. The language server sends the token itself.
type lease struct {
	server     *Server
	credential signin.Credential
	refused    bool // a token was
}

func (l *lease) Account() account.Leased {
	return account.Leased{Email: l.credential.Email, Project: l.credential.Project, Why: account.WhyOnly}
}

// Token returns the token that the language server has, so that it can be kept out of error messages.
func (l *lease) Token(ctx context.Context) (perigee.Secret, error) {
	if !l.refused {
		return l.credential.Access, nil
	}
	c, err := l.server.signIn.Next(ctx)
	if err == nil && c.Email == l.credential.Email {
		l.credential = c
	}
	return l.credential.Access, err
}

func (l *lease) Refused(perigee.Secret) {
	l.refused = true
	l.server.refused(l.credential.Email, perigee.Errorf(perigee.ClassUnauthenticated, "the access token was refused"))
}

func (l *lease) Answering() {}

func (l *lease) Done(v *providererr.Diagnosis) {
	if v != nil {
		l.server.refused(l.credential.Email, v.Error)
	}
}
