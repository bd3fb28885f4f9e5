package dashboard

import (
	"context"
	"maps"
	"slices"
	"time"

	"perigee"
	"perigee/internal/observe/dashboard/pages"
)

// modelsTime is how long the page about models waits for upstreams.
const modelsTime = 5 * time.Second

// models lists models, aliases and routes.
func (v *visit) models() error {
	var page pages.Models
	if v.control().RoutingControl != nil {
		ctx, cancel := context.WithTimeout(v.ctx, modelsTime)
		defer cancel()
		list, err := v.control().Models(ctx, "")
		if err != nil {
			page.Problems = append(page.Problems, v.opts.Redact(err.Error()))
		}
		page.Models = list.Rows
		for _, p := range list.Problems {
			page.Problems = append(page.Problems, v.opts.Redact(p.Upstream+": "+p.Why))
		}
	}
	if v.opts.Config != nil {
		cfg := v.opts.Config().Config
		page.Default, page.Fallback = cfg.Models.Default, cfg.Models.Fallback
		for _, r := range cfg.Models.Routes {
			page.Routes = append(page.Routes, pages.Route{Match: r.Match, To: r.To})
			page.CatchAll = page.CatchAll || r.Match == "*"
		}
		for _, name := range slices.Sorted(maps.Keys(cfg.Models.Aliases)) {
			page.Aliases = append(page.Aliases, Fact{Name: name, Value: cfg.Models.Aliases[name]})
		}
		for _, u := range cfg.Upstreams {
			page.Order = append(page.Order, u.Name)
		}
	}
	return v.render(200, "Models", "models", page)
}

// setup says how clients are set up.
func (v *visit) setup() error {
	page := pages.Setup{Base: v.base()}
	if v.opts.Config != nil {
		cfg := v.opts.Config().Config
		page.NeedsKey = len(cfg.Keys) > 0
		for _, k := range cfg.Keys {
			page.Keys = append(page.Keys, k.Name)
		}
	}
	if v.opts.Clients != nil {
		page.Clients = v.opts.Clients(page.Base, page.NeedsKey)
		v.addStates(page.Clients, page.Base)
	}
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
	if v.opts.Config == nil {
		return perigee.Errorf(perigee.ClassUnimplemented, "there is no configuration here")
	}
	loaded := v.opts.Config()
	page := pages.Config{File: loaded.Path, Searched: loaded.Searched, All: v.r.URL.Query().Get("all") != ""}
	for _, w := range loaded.Warnings {
		page.Warnings = append(page.Warnings, v.opts.Redact(w.String()))
	}
	for _, value := range loaded.Values() {
		value.Value = v.opts.Redact(value.Value)
		set := value.Origin != "default"
		if !set && !page.All {
			continue
		}
		name := sectionOf(value.Key)
		if n := len(page.Sections); n == 0 || page.Sections[n-1].Name != name {
			page.Sections = append(page.Sections, pages.ConfigSection{Name: name})
		}
		s := &page.Sections[len(page.Sections)-1]
		s.Values = append(s.Values, pages.ConfigValue{Key: value.Key, Value: value.Value, Origin: value.Origin, Set: set})
	}
	return v.render(200, "Configuration", "config", page)
}

// sectionOf is the first word of a key, with its index: "upstreams[0]"; of a key without further words, "general".
func sectionOf(key string) string {
	for i, c := range key {
		if c == '.' {
			return key[:i]
		}
	}
	for i, c := range key {
		if c == '[' {
			return key[:i]
		}
	}
	return "general"
}
