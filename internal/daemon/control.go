package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"perigee"
	"perigee/internal/accounts"
	"perigee/internal/audit"
	"perigee/internal/config"
	"perigee/internal/oauth"
	"perigee/internal/route"
)

// A control acts on a gateway. A daemon's serves the admin routes; commands without a daemon use the one of an offlineControl.
type control struct {
	accounts.Control
	gateway *gateway
}

func newControl(g *gateway) control {
	return control{gateway: g, Control: accounts.Control{
		Rosters: g.rosters, Router: func() accounts.Router { return g }, Store: g.accounts, Now: g.opts.Now,
	}}
}

// audited is the control with a log of everything that it changes.
func (c control) audited(log *audit.Log) perigee.Control {
	return perigee.Control{AccountControl: log.Accounts(c), RoutingControl: c, QuotaControl: c}
}

// rosters are the accounts of the upstreams that have any.
func (g *gateway) rosters() []*accounts.Roster {
	var list []*accounts.Roster
	for _, entry := range g.current.Load().entries {
		if entry.roster != nil {
			list = append(list, entry.roster)
		}
	}
	return list
}

// Models lists what can be asked.
func (c control) Models(ctx context.Context, upstream string) (list perigee.ModelList, err error) {
	routing, release := c.gateway.acquire()
	defer release()
	if upstream != "" && !slices.ContainsFunc(routing.entries, func(e *upstreamEntry) bool { return e.config.Name == upstream }) {
		return list, perigee.Errorf(perigee.ClassNotFound, "no upstream %q", upstream)
	}
	found, failed, err := routing.router.ModelsOf(ctx, upstream)
	if err != nil {
		return list, allOf(err, failed)
	}
	for _, m := range found {
		list.Rows = append(list.Rows, perigee.ModelRow{
			ID: m.ID, Upstream: m.Upstream, Context: m.Context, Output: m.Output, Thinking: m.Thinking,
			AliasOf: m.AliasOf, Default: m.ID == routing.router.Default(),
		})
	}
	for _, f := range failed {
		list.Problems = append(list.Problems, perigee.Problem{Upstream: f.Upstream, Why: f.Err.Error()})
	}
	return list, nil
}

// allOf is the error about upstreams of which none could be asked: the first one's, in the words of all.
func allOf(err error, failed []route.Failure) error {
	var words []string
	for _, f := range failed {
		if text := f.Err.Error(); !slices.Contains(words, text) {
			words = append(words, text)
		}
	}
	if len(words) < 2 {
		return err
	}
	e := *perigee.AsError(err)
	e.Message, e.Hint = strings.Join(words, "; "), ""
	return &e
}

// StartLogin begins a sign-in to an upstream. The caller owes a Wait or a Close; ctx is for the start alone.
func StartLogin(ctx context.Context, opts Options, u config.Upstream, email string) (*accounts.Login, error) {
	options, err := accountOptions(u, opts.complete())
	if err != nil {
		return nil, fmt.Errorf("upstream %s: %w", u.Name, err)
	}
	u = u.ForAccounts()
	login, err := accounts.StartLogin(ctx, u, email, options)
	if missing, ok := errors.AsType[*oauth.NoClient](err); ok {
		return nil, noClient(u, err, missing)
	}
	return login, err
}

// noClient is the error about a missing OAuth client, with what to configure.
func noClient(u config.Upstream, err error, missing *oauth.NoClient) error {
	if len(missing.Several) > 0 {
		return &ConfigError{fmt.Sprintf("upstream %s: %v (%s)", u.Name, err, missing.Looked)}
	}
	return &ConfigError{fmt.Sprintf("upstream %s: perigee has no OAuth client of its own; set oauth.client_id and oauth.client_secret "+
		"(a secret may be written env:NAME or file:PATH). "+
		"That of an installed Antigravity IDE was looked for (%s); --ide DIR says where one is", u.Name, missing.Looked)}
}

// ExportAccounts writes the accounts of an upstream to a file, as accounts.Roster.Export does.
func ExportAccounts(ctx context.Context, opts Options, upstream, path string, replace bool) (done accounts.Exported, err error) {
	offline, err := openOffline(ctx, opts)
	if err != nil {
		return done, err
	}
	defer offline.close()
	r, err := newControl(offline.gateway).Roster(upstream)
	if err != nil {
		return done, err
	}
	return r.Export(ctx, path, replace, func(e perigee.AuditEntry) error { return RecordAct(ctx, opts, e) })
}
