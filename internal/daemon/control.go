package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"perigee"
	"perigee/internal/account/oauth"
	"perigee/internal/account/roster"
	"perigee/internal/daemon/gateway"
	"perigee/internal/store/audit"
	"perigee/internal/store/config"
)

// A control acts on a gateway. A daemon's serves the admin routes; commands without a daemon use
// the one of an offlineControl.
type control struct {
	roster.Control
	gateway *gateway.Gateway
}

func newControl(g *gateway.Gateway, store accountsOpener, now func() time.Time) control {
	return control{gateway: g, Control: roster.Control{
		Rosters: g.Rosters, Router: func() roster.Router { return g }, Store: store, Now: now,
	}}
}

// audited returns the control with a log of everything that it changes.
func (c control) audited(log *audit.Log) perigee.Control {
	return perigee.Control{AccountControl: log.Accounts(c), RoutingControl: c, QuotaControl: c}
}

// Models lists the models that can be called.
func (c control) Models(ctx context.Context, upstream string, fresh bool) (perigee.ModelList, error) {
	return c.gateway.ListModels(ctx, upstream, fresh)
}

// ExplainRoute reports which upstream would answer a call now. A resource name, models/NAME, is
// accepted for the model, as in calls.
func (c control) ExplainRoute(ctx context.Context, q perigee.RouteQuestion) (perigee.RouteExplanation, error) {
	q.Model = strings.TrimPrefix(q.Model, "models/")
	return c.gateway.Explain(ctx, q)
}

// ExplainAccounts reports which account would be used for a model now. There is none if an upstream
// without accounts would answer first.
func (c control) ExplainAccounts(ctx context.Context, model string) ([]perigee.ChoiceRow, error) {
	model = strings.TrimPrefix(model, "models/")
	rows, err := c.Control.ExplainAccounts(ctx, model)
	chosen := slices.IndexFunc(rows, func(row perigee.ChoiceRow) bool { return row.Chosen })
	if err != nil || model == "" || chosen < 0 || !c.asksAnotherBefore(rows[chosen].Upstream, model) {
		return rows, err
	}
	answer, err := c.gateway.Explain(ctx, perigee.RouteQuestion{Model: model})
	if row := &rows[chosen]; err == nil && answer.Upstream != "" && c.gateway.AccountsOf(answer.Upstream) != row.Upstream {
		row.Chosen, row.Why = false, fmt.Sprintf("%s; %s is asked first", row.Why, answer.Upstream)
	}
	return rows, err
}

// asksAnotherBefore reports whether an upstream without accounts is called for a model before those
// that lease accounts of the named one.
func (c control) asksAnotherBefore(upstream, model string) bool {
	rosters := c.gateway.Rosters()
	for _, name := range c.gateway.Upstreams(model) {
		leased := c.gateway.AccountsOf(name)
		if leased == upstream {
			return false
		}
		if !slices.ContainsFunc(rosters, func(r *roster.Roster) bool { return r.Upstream() == leased }) {
			return true
		}
	}
	return false
}

// ImportAccounts adds accounts and drops cached lists of models: the accounts may have new ones.
func (c control) ImportAccounts(ctx context.Context, in perigee.AccountImport) ([]perigee.ImportedRow, error) {
	defer c.gateway.ForgetModels()
	return c.Control.ImportAccounts(ctx, in)
}

// EnableAccount sets whether an account, and with it its models, may be used.
func (c control) EnableAccount(ctx context.Context, name perigee.AccountName, enabled bool) (perigee.AccountRow, error) {
	defer c.gateway.ForgetModels()
	return c.Control.EnableAccount(ctx, name, enabled)
}

// RemoveAccount removes an account, and drops cached lists of models.
func (c control) RemoveAccount(ctx context.Context, name perigee.AccountName) error {
	defer c.gateway.ForgetModels()
	return c.Control.RemoveAccount(ctx, name)
}

// StartLogin begins a sign-in to an upstream. The caller must call Wait or Close; ctx is for the
// start alone.
func StartLogin(ctx context.Context, opts Options, u config.Upstream, email string) (*roster.Login, error) {
	opts = opts.complete()
	options, err := gateway.AccountOptions(u, opts.Loaded.Config.Interception, opts.forUpstreams(nil))
	if err != nil {
		return nil, fmt.Errorf("upstream %s: %w", u.Name, err)
	}
	u = u.ForAccounts()
	login, err := roster.StartLogin(ctx, u, email, options)
	if missing, ok := errors.AsType[*oauth.NoClient](err); ok {
		return nil, noClient(u, err, missing)
	}
	return login, err
}

// noClient returns the error about a missing OAuth client, with the settings to configure.
func noClient(u config.Upstream, err error, missing *oauth.NoClient) error {
	if len(missing.Several) > 0 {
		return &ConfigError{Message: fmt.Sprintf("upstream %s: %v (%s)", u.Name, err, missing.Searched)}
	}
	return &ConfigError{Message: fmt.Sprintf("upstream %s: perigee has no OAuth client of its own; set oauth.client_id and oauth.client_secret "+
		"(a secret may be written env:NAME or file:PATH). "+
		"That of an installed Antigravity IDE was looked for (%s); --ide DIR says where one is", u.Name, missing.Searched)}
}

// ExportAccounts writes the accounts of an upstream to a file, as roster.Roster.Export does.
func ExportAccounts(ctx context.Context, opts Options, upstream, path string, replace bool) (done roster.Exported, err error) {
	offline, err := openOffline(ctx, opts)
	if err != nil {
		return done, err
	}
	defer offline.close()
	r, err := newControl(offline.gateway, offline.accounts, offline.opts.Now).Roster(upstream)
	if err != nil {
		return done, err
	}
	return r.Export(ctx, path, replace, func(e perigee.AuditEntry) error { return RecordAct(ctx, opts, e) })
}
