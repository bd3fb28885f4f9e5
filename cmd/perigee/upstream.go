package main

import (
	"slices"
	"strings"

	"perigee/internal/config"
	"perigee/internal/daemon"
	"perigee/internal/names"
)

// knownUpstream refuses the name of an upstream that nobody configured.
func knownUpstream(cfg *config.Config, name string) error {
	known := []string{}
	for _, u := range cfg.Upstreams {
		known = append(known, u.Name)
	}
	if len(known) == 0 {
		known = append(known, daemon.SimulatorName)
	}
	if name == "" || slices.Contains(known, name) {
		return nil
	}
	if near := names.Nearest(name, known, 1); len(near) > 0 {
		return usagef("no upstream %q; did you mean %s?", name, near[0])
	}
	return usagef("no upstream %q; perigee config show lists them", name)
}

// accountUpstream refuses to go on where no upstream has accounts, or not the one that is named. one is for who has to
// know which it is.
func accountUpstream(command string, cfg *config.Config, name string, one bool) error {
	var able []string
	for _, u := range cfg.Upstreams {
		if u.Kind == config.KindAntigravity {
			able = append(able, u.Name)
		}
	}
	switch {
	case len(able) == 0 && command == "quota" && slices.ContainsFunc(cfg.Upstreams, func(u config.Upstream) bool { return u.Kind == config.KindGemini }):
		return usagef("quota: there is none to show: API keys do not tell what they have left, and no upstream with accounts is configured")
	case len(able) == 0 && len(cfg.Upstreams) > 0:
		return usagef("%s: no upstream that has accounts is configured; those there are need none", command)
	case len(able) == 0:
		return usagef("%s: no upstream that has accounts is configured; add one of kind antigravity, or use kind gemini with an API key, which is recommended", command)
	case slices.Contains(able, name) || name == "" && (len(able) == 1 || !one):
		return nil
	case name == "":
		return usagef("%s: several upstreams have accounts; say which with --upstream: %s", command, strings.Join(able, ", "))
	}
	if err := knownUpstream(cfg, name); err != nil {
		return err
	}
	return usagef("%s: the upstream %s has no accounts; --upstream takes %s", command, name, strings.Join(able, ", "))
}
