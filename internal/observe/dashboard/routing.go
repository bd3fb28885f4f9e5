package dashboard

import (
	"context"
	"time"

	"perigee/internal/observe/dashboard/pages"
)

// modelsTime is how long the page about models waits for upstreams.
const modelsTime = 5 * time.Second

// models lists models, aliases and routes.
func (v *visit) models() error {
	var page pages.Models
	ctx, cancel := context.WithTimeout(v.ctx, modelsTime)
	defer cancel()
	list, err := v.opts.Control().Models(ctx, "", false)
	if err != nil {
		page.Problems = append(page.Problems, v.opts.Redact(err.Error()))
	}
	page.Models = list.Rows
	for _, p := range list.Problems {
		page.Problems = append(page.Problems, v.opts.Redact(p.Upstream+": "+p.Why))
	}
	cfg := v.opts.Config().Config
	page.Routing = cfg.Models
	for _, u := range cfg.Upstreams {
		page.Order = append(page.Order, u.Name)
	}
	return v.render(200, "Models", "models", page)
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
