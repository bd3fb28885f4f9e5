package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"perigee"
	"perigee/internal/cli"
	"perigee/internal/cli/command"
	"perigee/internal/daemon"
	"perigee/internal/langserver/probe"
	"perigee/internal/langserver/supervisor"
	"perigee/internal/lib/terminal"
	"perigee/internal/store/config"
)

func langserverCommand(ctx context.Context, env *cli.Env, args []string) error {
	switch word, err := env.Subcommand(args); {
	case err != nil:
		return err
	case word == "run":
		return runLangserver(ctx, env, args[1:])
	case word == "status":
		return langserverStatus(ctx, env, args[1:])
	}
	return probeLangserver(ctx, env, args[1:])
}

// probeLangserver prints the path, hash, version, profile and flags of the program of a language
// server: the one of --binary, of the configuration, or of an installed IDE.
func probeLangserver(ctx context.Context, env *cli.Env, args []string) error {
	binary := env.Flags.String("binary", "", "")
	if _, err := env.Parse(args, 0); err != nil {
		return err
	}
	upstream := config.Upstream{Binary: *binary}
	if *binary == "" {
		loaded, err := command.Load(env, command.NoSecrets)
		if err != nil {
			return err
		}
		if i := slices.IndexFunc(loaded.Config.Upstreams, runsLangserver); i >= 0 {
			upstream = loaded.Config.Upstreams[i]
		}
	}
	words, err := daemon.LangserverCommand(upstream)
	if err != nil {
		return fmt.Errorf("langserver probe: %w", err)
	}
	found, err := probe.Options{Command: words, Env: upstream.Env, Version: upstream.Version}.Probe(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("langserver probe: %w", err)
	case env.JSON:
		return cli.WriteJSON(env, found)
	}
	for _, row := range [][2]string{{"path", found.Path}, {"sha256", found.SHA256}, {"version", command.OrDash(found.Version)},
		{"profile", found.Profile}, {"flags", strings.Join(found.Flags, " ")}} {
		const indent = 9
		lines := []string{terminal.Printable(row[1])}
		if width := env.Width(); width > 2*indent {
			lines = terminal.Fold(lines[0], width-indent)
		}
		fmt.Fprintf(env.Stdout, "%-*s%s\n", indent, row[0], strings.Join(lines, "\n"+strings.Repeat(" ", indent)))
	}
	return nil
}

// runsLangserver reports whether perigee starts a language server for an upstream.
func runsLangserver(u config.Upstream) bool { return u.Kind == config.KindLangserver && !u.Attach }

// runLangserver runs a language server in the foreground, without the gateway, until a signal ends
// it.
func runLangserver(ctx context.Context, env *cli.Env, args []string) error {
	name := env.Flags.String("upstream", "", "")
	if _, err := env.Parse(args, 0); err != nil {
		return err
	}
	if env.JSON {
		return cli.Usagef("langserver run: --json is for probe and status")
	}
	loaded, err := command.Load(env, command.ExceptUpstreams)
	if err != nil {
		return err
	}
	upstream, err := chooseLangserver(loaded.Config, *name)
	if err != nil {
		return err
	}
	out := newReporter(env, loaded.Config)
	out.reportWarnings(loaded)
	options := command.DaemonOptions(env, loaded)
	options.Logger, options.LogLevel = out.logger, out.level
	err = daemon.RunLangserver(ctx, options, upstream, func(s supervisor.Status) {
		fmt.Fprintf(env.Stdout, "ready pid=%d http=%d https=%d\n", s.PID, s.HTTPPort, s.HTTPSPort)
	})
	if ctx.Err() != nil && (err == nil || errors.Is(err, ctx.Err())) {
		out.report(slog.LevelInfo, "stopped")
		return nil
	}
	return err
}

// chooseLangserver returns the upstream to run: the named one, or the only one.
func chooseLangserver(cfg *config.Config, name string) (chosen config.Upstream, err error) {
	var known []string
	for _, u := range cfg.Upstreams {
		if runsLangserver(u) {
			known = append(known, u.Name)
		}
		if runsLangserver(u) && (name == "" || u.Name == name) {
			chosen = u
		}
	}
	switch {
	case len(known) == 0:
		return chosen, cli.Usagef("langserver run: no upstream of kind langserver is configured; add one under upstreams, without attach")
	case name == "" && len(known) > 1:
		return chosen, cli.Usagef("langserver run: several upstreams have a language server; choose one with --upstream: %s", strings.Join(known, ", "))
	case chosen.Name != "":
		return chosen, nil
	}
	if err := command.KnownUpstream(cfg, name); err != nil {
		return chosen, err
	}
	return chosen, cli.Usagef("langserver run: the upstream %s runs no language server; --upstream takes %s", name, strings.Join(known, ", "))
}

func langserverStatus(ctx context.Context, env *cli.Env, args []string) error {
	if _, err := env.Parse(args, 0); err != nil {
		return err
	}
	loaded, err := command.Load(env, command.NoSecrets)
	if err != nil {
		return err
	}
	rows, err := daemon.Langservers(ctx, loaded.Config)
	if errors.Is(err, daemon.ErrNotRunning) {
		return command.NotRunning(ctx, loaded.Config, "; language servers run with perigee serve")
	}
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		env.Remark("the daemon has no upstream of kind langserver")
	}
	now := time.Now()
	heads := []string{"UPSTREAM", "STATE", "FOR", "PID", "HTTP", "HTTPS", "VERSION", "PROFILE", "ACCOUNT", "RESTARTS", "MEMORY", "LAST EXIT"}
	return cli.List(env, rows, heads, func(r perigee.LangserverRow) []any {
		memory := "-"
		if r.Memory > 0 {
			memory = terminal.Size(r.Memory)
		}
		return []any{r.Upstream, r.State, terminal.Span(now.Sub(r.Since)), orDashZero(r.PID), orDashZero(r.HTTPPort), orDashZero(r.HTTPSPort),
			command.OrDash(r.Version), command.OrDash(r.Profile), command.OrDash(r.Account), r.Restarts, memory, command.OrDash(r.LastExit)}
	})
}

// orDashZero returns a number, or a dash for 0, which is a number that is not known.
func orDashZero(n int) any {
	if n == 0 {
		return "-"
	}
	return n
}
