package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"perigee"
	"perigee/internal/cli/trustinstall"
	"perigee/internal/intercept/redirect"
	"perigee/internal/intercept/truststore"
	"perigee/internal/langserver/probe"
	"perigee/internal/store/config"
)

// A Langserver is an upstream of kind langserver.
type Langserver struct {
	Upstream config.Upstream
	Config   string                 // the configuration file
	Command  []string               // the program and its arguments; empty if it was not found
	Err      error                  // why it was not found
	Cache    string                 // directory with the results of earlier probes
	Row      *perigee.LangserverRow // its state in the daemon; nil if unknown
}

// Langservers checks the programs of language servers and their states in the daemon. No program is
// executed.
func Langservers(list []Langserver) Result {
	if len(list) == 0 {
		return ok(NameLangserver, "no upstream of kind langserver is configured")
	}
	results := make([]Result, len(list))
	for i, l := range list {
		results[i] = l.check()
		results[i].Detail = l.Upstream.Name + ": " + results[i].Detail
	}
	return merge(NameLangserver, results)
}

func (l Langserver) check() Result {
	u := l.Upstream
	if u.Attach {
		return ok(NameLangserver, "uses the language server of a running IDE")
	}
	if l.Err != nil || len(l.Command) == 0 {
		if info, err := os.Stat(u.Binary); err == nil && info.Mode().IsRegular() && runtime.GOOS != "windows" && info.Mode().Perm()&0o111 == 0 {
			return fail(NameLangserver, commandLine("chmod", "+x", absolute(u.Binary)), "%v", l.Err)
		}
		return fail(NameLangserver, edit(l.Config, 0), "%v", l.Err)
	}
	known, found, err := probe.Options{Command: l.Command, Env: u.Env, Version: u.Version, Cache: l.Cache}.Known()
	if err != nil {
		return fail(NameLangserver, edit(l.Config, 0), "%v", err)
	}
	what := known.Path
	if known.Version != "" {
		what += ", version " + known.Version
	}
	if found {
		what += ", profile " + known.Profile
	} else {
		what += ", not run yet"
	}
	if l.Row == nil {
		return ok(NameLangserver, "%s", what)
	}
	login := "perigee login --upstream " + commandLine(cmp.Or(u.AccountsFrom, u.Name))
	why := ""
	if l.Row.LastExit != "" {
		why = ": " + l.Row.LastExit
	}
	switch state := l.Row.State; {
	case state == "ready":
		return ok(NameLangserver, "ready, %s", what)
	case state == "failed":
		return fail(NameLangserver, "perigee langserver probe", "failed%s; %s", why, what)
	case state == "stopped" && l.Row.Account == "":
		return fail(NameLangserver, login, "stopped, because no account can be used; %s", what)
	case state == "stopped":
		return fail(NameLangserver, login, "stopped%s; %s", why, what)
	default:
		return warn(NameLangserver, "perigee langserver status", "%s%s; %s", state, why, what)
	}
}

// CA checks the certificate authority of interception, and looks for certificates of lost ones in
// the trust stores.
func CA(ctx context.Context, ca trustinstall.CA, now time.Time) Result {
	var remarks []string
	ca.Remark = func(format string, args ...any) { remarks = append(remarks, fmt.Sprintf(format, args...)) }
	left, err := ca.Machine.Leftovers(ctx, ca.Dir, filepath.Join(ca.Dir, "mitm"))
	if err != nil {
		return warn(NameCA, "perigee ca show", "the trust stores could not be read: %v", err)
	}
	if len(left) > 0 {
		l := left[0]
		return warn(NameCA, l.Store.RemoveLine(l.Certificate),
			"%s trusts the certificate %s… of a CA of perigee that is elsewhere or lost", l.Store.Path, truststore.ID(l.Certificate))
	}
	status, err := ca.Status(ctx)
	switch {
	case errors.Is(err, trustinstall.ErrNone):
		return ok(NameCA, "there is none, and none is installed")
	case err != nil:
		return fail(NameCA, "perigee ca remove", "%v", err)
	}
	installed := "in no trust store"
	if len(status.Places) > 0 {
		installed = "installed: " + strings.Join(status.Places, ", ")
	}
	renew := "perigee ca install --yes"
	switch {
	case !status.NotAfter.After(now) && len(status.Places) > 0:
		return fail(NameCA, renew, "%s expired on %s; %s", status.Path, status.NotAfter.Format(time.DateOnly), installed)
	case len(remarks) > 0 && len(status.Places) > 0:
		return warn(NameCA, renew, "%s; %s", strings.Join(remarks, "; "), installed)
	}
	return ok(NameCA, "%s, valid until %s, %s", status.Path, status.NotAfter.Format(time.DateOnly), installed)
}

// A Redirect is the state of the redirect of this machine.
type Redirect struct {
	Status  redirect.Status
	Err     error
	Wanted  bool // an upstream has intercept: transparent
	Running bool // a daemon is running, which answers redirected connections if Wanted
}

// Check finds rules of a redirect that nothing answers, and a redirect that is missing.
func (r Redirect) Check() Result {
	s := r.Status
	switch {
	case r.Err != nil:
		return warn(NameRedirect, "sudo perigee redirect status", "%v", r.Err)
	case s.Problem != "" && r.Wanted:
		return fail(NameRedirect, cmp.Or(s.Restore(), "sudo perigee redirect remove"), "%s", s.Problem)
	case s.Problem != "":
		return fail(NameRedirect, "sudo perigee redirect remove", "%s", s.Problem)
	case !s.Installed && r.Wanted:
		return fail(NameRedirect, "sudo perigee redirect install --user perigee-ls",
			"an upstream has intercept: transparent, and no redirect is installed")
	case !s.Installed:
		return ok(NameRedirect, "none is installed")
	case !r.Wanted:
		return warn(NameRedirect, "sudo perigee redirect remove",
			"connections of the user %s to port 443 go to port %d, and no upstream has intercept: transparent", s.User, s.Port)
	case !r.Running:
		return warn(NameRedirect, "perigee serve",
			"connections of the user %s to port 443 go to port %d, where nothing answers without a daemon", s.User, s.Port)
	}
	return ok(NameRedirect, "connections of the user %s to port 443 go to port %d (%s)", s.User, s.Port, s.Backend)
}
