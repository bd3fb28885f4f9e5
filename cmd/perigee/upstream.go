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

// withAccounts are the names of the upstreams that have accounts.
func withAccounts(cfg *config.Config) []string {
	var able []string
	for _, u := range cfg.Upstreams {
		if u.Kind == config.KindAntigravity {
			able = append(able, u.Name)
		}
	}
	return able
}

// noAccounts says what it means that no upstream has accounts.
func noAccounts(cfg *config.Config) string {
	if len(cfg.Upstreams) > 0 {
		return "none of the configured upstreams uses accounts"
	}
	return "no upstream with accounts is configured; add one of kind antigravity, or use kind gemini with an API key, which is recommended"
}

// accountUpstream refuses to go on where no upstream has accounts, or not the one that is named. one is for who has to
// know which it is.
func accountUpstream(command string, cfg *config.Config, name string, one bool) error {
	able := withAccounts(cfg)
	switch {
	case len(able) == 0:
		return usagef("%s: %s", command, noAccounts(cfg))
	case slices.Contains(able, name) || name == "" && (len(able) == 1 || !one):
		return nil
	case name == "":
		return usagef("%s: several upstreams have accounts; choose one with --upstream: %s", command, strings.Join(able, ", "))
	}
	if err := knownUpstream(cfg, name); err != nil {
		return err
	}
	return usagef("%s: the upstream %s has no accounts; --upstream takes %s", command, name, strings.Join(able, ", "))
}
