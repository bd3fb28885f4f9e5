package dashboard

import (
	"context"
	"maps"
	"slices"
	"time"

	"perigee"
	"perigee/internal/config"
)

// modelsTime is how long the page about models waits for upstreams.
const modelsTime = 5 * time.Second

// A modelsPage is what can be asked, and where requests go.
type modelsPage struct {
	Models   []perigee.ModelRow
	Problems []string
	Aliases  []Fact
	Routes   []config.Route
	Default  string
	Fallback string
	Order    []string // of the upstreams, where no route matches
	CatchAll bool     // a route matches everything
}

// models lists models, aliases and routes.
func (v *visit) models() error {
	var page modelsPage
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
		page.Routes, page.Default, page.Fallback = cfg.Models.Routes, cfg.Models.Default, cfg.Models.Fallback
		for _, name := range slices.Sorted(maps.Keys(cfg.Models.Aliases)) {
			page.Aliases = append(page.Aliases, Fact{name, cfg.Models.Aliases[name]})
		}
		page.CatchAll = slices.ContainsFunc(page.Routes, func(r config.Route) bool { return r.Match == "*" })
		for _, u := range cfg.Upstreams {
			page.Order = append(page.Order, u.Name)
		}
	}
	return v.render(200, "models", "Models", "models", page)
}

// A setupPage says how clients are set up.
type setupPage struct {
	Base     string
	Clients  []Client
	NeedsKey bool
	Keys     []string // their names
	Model    string
}

// setup says how clients are set up.
func (v *visit) setup() error {
	page := setupPage{Base: v.base(), Model: "gemini-3-flash"}
	if v.opts.Config != nil {
		cfg := v.opts.Config().Config
		page.NeedsKey = len(cfg.Keys) > 0
		for _, k := range cfg.Keys {
			page.Keys = append(page.Keys, k.Name)
		}
		if cfg.Models.Default != "" {
			page.Model = cfg.Models.Default
		}
	}
	if v.opts.Clients != nil {
		page.Clients = v.opts.Clients(page.Base, page.NeedsKey)
	}
	return v.render(200, "setup", "Set up a client", "setup", page)
}

// base is the base URL under which the browser has found perigee.
func (v *visit) base() string {
	if v.r.TLS != nil {
		return "https://" + v.r.Host
	}
	return "http://" + v.r.Host
}

// A configPage is the configuration in force.
type configPage struct {
	File     string
	Searched string
	Sections []configSection
	Warnings []string
	Set      int // values that are not defaults
	All      bool
}

// A configSection is the values with the same first word.
type configSection struct {
	Name   string
	Values []configValue
}

type configValue struct {
	config.Value
	Set bool // it is not the default
}

// config shows the effective values with their origin.
func (v *visit) config() error {
	if v.opts.Config == nil {
		return perigee.Errorf(perigee.ClassUnimplemented, "there is no configuration here")
	}
	loaded := v.opts.Config()
	page := configPage{File: loaded.Path, Searched: loaded.Searched, All: v.r.URL.Query().Get("all") != ""}
	for _, w := range loaded.Warnings {
		page.Warnings = append(page.Warnings, v.opts.Redact(w.String()))
	}
	for _, value := range loaded.Values() {
		value.Value = v.opts.Redact(value.Value)
		set := value.Origin != "default"
		if set {
			page.Set++
		}
		if !set && !page.All {
			continue
		}
		name := sectionOf(value.Key)
		if n := len(page.Sections); n == 0 || page.Sections[n-1].Name != name {
			page.Sections = append(page.Sections, configSection{Name: name})
		}
		s := &page.Sections[len(page.Sections)-1]
		s.Values = append(s.Values, configValue{value, set})
	}
	return v.render(200, "config", "Configuration", "config", page)
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
