package roster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"perigee"
	"perigee/internal/account/oauth"
	"perigee/internal/store/config"
)

// IDEVariable is the environment variable that names the directory of the installed IDE.
const IDEVariable = oauth.InstalledVariable

// A Login is a sign-in that waits for a person, and that finds the project of the account.
type Login struct {
	*oauth.Login

	upstream   string
	discoverer *oauth.Discoverer
}

// StartLogin begins a sign-in to an upstream. Wait or Close must be called; ctx is for the start
// alone.
func StartLogin(ctx context.Context, u config.Upstream, email string, opts Options) (*Login, error) {
	login, err := oauth.StartLogin(ctx, oauth.LoginOptions{Client: newSignIn(u, opts), Port: u.OAuth.RedirectPort, Email: email})
	if err != nil {
		return nil, err
	}
	return &Login{Login: login, upstream: u.Name, discoverer: newDiscoverer(u, opts)}, nil
}

// A SignedIn is an account that signed in, with the provider's report about it.
type SignedIn struct {
	Email   string
	Project string // empty if the first call will find it
	Tier    string
	Import  perigee.AccountImport // for Control.ImportAccounts

	// State is perigee.AccountReady, or the state that keeps the account from being used. Err is
	// the reason for that state, or for a ready account why its project could not be found yet; nil
	// if there is no error.
	State string
	Err   error
	Link  string // where the account is verified, if the provider requires that
}

// Wait returns the account that signed in, with the project that calls will be made for. progress
// may be nil.
func (l *Login) Wait(ctx context.Context, progress func(string)) (*SignedIn, error) {
	who, err := l.Login.Wait(ctx)
	if err != nil {
		return nil, err
	}
	if progress == nil {
		progress = func(string) {}
	}
	progress("signed in as " + who.Email + ", looking for its project")
	s := &SignedIn{Email: who.Email}
	project, err := l.discoverer.Discover(ctx, who.Grant.Access, func(poll, most int) {
		progress(fmt.Sprintf("there is none yet; the provider is making one (%d of at most %d looks)", poll, most))
	})
	s.Project, s.Tier, s.Err = project.ID, cmp.Or(project.TierName, project.Tier), err
	s.State = cmp.Or(oauth.StateOf(err), perigee.AccountReady)
	if refusal, ok := errors.AsType[*oauth.Refusal](err); ok {
		s.Link = refusal.Link
	}
	reason := ""
	if s.State == perigee.AccountVerification {
		reason = err.Error()
		if s.Link != "" && !strings.Contains(reason, s.Link) {
			reason += " (" + s.Link + ")"
		}
	}
	s.Import = perigee.AccountImport{Upstream: l.upstream, Document: encodeAccounts([]perigee.SignIn{{
		Account: perigee.Account{Email: who.Email, Enabled: true, ProjectID: project.ID, State: s.State},
		Refresh: who.Grant.Refresh, Reason: reason,
	}}, "")}
	return s, ctx.Err()
}
