package command

import (
	"slices"
	"strings"

	"perigee/internal/cli"
	"perigee/internal/daemon"
	"perigee/internal/lib/match"
	"perigee/internal/store/config"
)

// KnownUpstream returns an error for an upstream that is not configured. The empty name means all.
func KnownUpstream(cfg *config.Config, name string) error {
	var known []string
	for _, u := range cfg.Upstreams {
		known = append(known, u.Name)
	}
	if len(known) == 0 {
		known = []string{daemon.SimulatorName}
	}
	if name == "" || slices.Contains(known, name) {
		return nil
	}
	if near := match.Nearest(name, known, 1); len(near) > 0 {
		return cli.Usagef("no upstream %q; did you mean %s?", name, near[0])
	}
	return cli.Usagef("no upstream %q; perigee config show lists them", name)
}

// WithAccounts returns the names of the upstreams that have accounts.
func WithAccounts(cfg *config.Config) (known []string) {
	for _, u := range cfg.Upstreams {
		if u.HasAccounts() {
			known = append(known, u.Name)
		}
	}
	return known
}

// NoAccounts explains that no upstream has accounts.
func NoAccounts(cfg *config.Config) string {
	if len(cfg.Upstreams) > 0 {
		return "none of the configured upstreams uses accounts"
	}
	return "no upstream with accounts is configured; add one of kind antigravity, or use kind gemini with an API key, which is recommended"
}

// AccountUpstream returns an error unless the named upstream has accounts. With one, the empty name
// means the only upstream with accounts, otherwise all of them.
func AccountUpstream(command string, cfg *config.Config, name string, one bool) error {
	known := WithAccounts(cfg)
	switch {
	case len(known) == 0:
		return cli.Usagef("%s: %s", command, NoAccounts(cfg))
	case slices.Contains(known, name) || name == "" && (len(known) == 1 || !one):
		return nil
	case name == "":
		return cli.Usagef("%s: several upstreams have accounts; choose one with --upstream: %s", command, strings.Join(known, ", "))
	}
	if err := KnownUpstream(cfg, name); err != nil {
		return err
	}
	return cli.Usagef("%s: the upstream %s has no accounts; --upstream takes %s", command, name, strings.Join(known, ", "))
}

// agentModel is the model of upstreams of kind ide.
const agentModel = "antigravity-agent"

// WithoutTools reports whether a model is the agent of an IDE, which has tools of its own and
// ignores the tools of clients.
func WithoutTools(cfg *config.Config, model string) bool {
	if to, ok := cfg.Models.Aliases[model]; ok {
		model = to
	}
	return slices.ContainsFunc(cfg.Upstreams, func(u config.Upstream) bool {
		return u.Kind == config.KindIDE && (model == agentModel || model == u.Name+"/"+agentModel)
	})
}
