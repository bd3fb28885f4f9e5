package dashboard

import (
	"context"
	"slices"
	"strings"
	"time"

	"perigee"
	"perigee/internal/observe/dashboard/pages"
)

// modelsTime is how long the page about models waits for upstreams.
const modelsTime = 5 * time.Second

// models lists models, aliases and routes.
func (v *visit) models() error {
	var page pages.Models
	page.Models, page.Problems = v.listModels("")
	cfg := v.opts.Config().Config
	page.Routing = cfg.Models
	for _, u := range cfg.Upstreams {
		page.Order = append(page.Order, u.Name)
	}
	return v.render(200, "Models", "models", page)
}

// listModels lists the models of an upstream, or of all, with the upstream that would answer. problems
// are why models are missing.
func (v *visit) listModels(upstream string) (models []pages.ModelAnswer, problems []string) {
	ctx, cancel := context.WithTimeout(v.ctx, modelsTime)
	defer cancel()
	control := v.opts.Control()
	list, err := control.Models(ctx, upstream, false)
	if err != nil {
		problems = append(problems, v.opts.Redact(err.Error()))
	}
	for _, p := range list.Problems {
		problems = append(problems, v.opts.Redact(p.Upstream+": "+p.Why))
	}
	for _, row := range list.Rows {
		answer := pages.ModelAnswer{ModelRow: row}
		if e, err := control.ExplainRoute(ctx, perigee.RouteQuestion{Model: row.ID}); err != nil {
			answer.Why = v.opts.Redact(perigee.AsError(err).Message)
		} else {
			answer.Answers, answer.Why = e.Upstream, v.opts.Redact(whyAnswers(&e))
		}
		models = append(models, answer)
	}
	return models, problems
}

// whyAnswers summarizes an explanation: how the name led to the upstreams, why those before the one
// that would answer do not, and which ones follow.
func whyAnswers(e *perigee.RouteExplanation) string {
	// The steps about routes with conditions come first; the page lists these routes.
	reasons := slices.Clone(e.Steps[min(len(e.Conditions), len(e.Steps)):])
	if len(e.Conditions) > 0 {
		reasons = append(reasons, "routes with conditions can lead elsewhere")
	}
	var next []string
	found := e.Upstream == ""
	for _, c := range e.Candidates {
		switch {
		case c.Upstream == e.Upstream:
			found = true
		case !found, e.Upstream == "":
			reasons = append(reasons, c.Upstream+": "+c.Reason)
		case c.Usable:
			next = append(next, c.Upstream)
		}
	}
	if len(next) > 0 {
		reasons = append(reasons, "then "+strings.Join(next, ", "))
	}
	return strings.Join(reasons, "; ")
}

// setup shows how clients are set up.
func (v *visit) setup() error {
	page := pages.Setup{Base: v.base()}
	for _, k := range v.opts.Config().Config.Keys {
		page.Keys = append(page.Keys, k.Name)
	}
	page.Clients = v.opts.Clients(page.Base, len(page.Keys) > 0)
	v.addStates(page.Clients, page.Base)
	return v.render(200, "Set up a client", "setup", page)
}

// base is the base URL under which the browser has found perigee.
func (v *visit) base() string {
	if v.r.TLS != nil {
		return "https://" + v.r.Host
	}
	return "http://" + v.r.Host
}

// config shows the effective values with their origin.
func (v *visit) config() error {
	loaded := v.opts.Config()
	page := pages.Config{File: loaded.Path, Searched: loaded.Searched, All: v.r.URL.Query().Get("all") != ""}
	for _, w := range loaded.Warnings {
		page.Warnings = append(page.Warnings, v.opts.Redact(w.String()))
	}
	for _, value := range loaded.Values() {
		if page.All || !value.Default() {
			value.Value = v.opts.Redact(value.Value)
			page.Values = append(page.Values, value)
		}
	}
	return v.render(200, "Configuration", "config", page)
}
