package main

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"perigee/internal/config"
	"perigee/internal/daemon"
	"perigee/internal/names"
)

var modelsCommand = command{
	name:    "models",
	summary: "list what can be asked",
	run:     models,
	usage: `  perigee models
  perigee models --upstream studio --json

Asks the configured upstreams which models they have. No daemon is needed.

  --upstream NAME  only the models of this upstream
  --json           a JSON array: id, upstream, context, output, thinking
`,
}

// A modelRow is a model in a listing.
type modelRow struct {
	ID       string `json:"id"`
	Upstream string `json:"upstream"`
	Context  int64  `json:"context"`
	Output   int64  `json:"output"`
	Thinking bool   `json:"thinking"`
}

func models(ctx context.Context, env *environment, args []string) error {
	var src config.Sources
	set := flags(env, &src.Path)
	upstream := set.String("upstream", "", "")
	asJSON := set.Bool("json", false, "")
	if err := parse(env, set, args, 0); err != nil {
		return err
	}
	loaded, err := config.Load(src)
	if err != nil {
		return err
	}
	if err := knownUpstream(loaded.Config, *upstream); err != nil {
		return err
	}
	if *upstream != "" {
		only := *loaded.Config
		only.Upstreams = slices.DeleteFunc(slices.Clone(only.Upstreams), func(u config.Upstream) bool { return u.Name != *upstream })
		only.Models.Routes = nil
		loaded.Config = &only
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	found, err := daemon.Models(ctx, daemon.Options{
		Loaded: loaded, Version: programVersion(),
		Logger: slog.New(slog.NewTextHandler(env.stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		return err
	}
	rows := []modelRow{}
	for _, m := range found {
		if *upstream == "" || m.Upstream == *upstream {
			rows = append(rows, modelRow{m.ID, m.Upstream, m.Context, m.Output, m.Thinking})
		}
	}
	return list(env, *asJSON, rows,
		column[modelRow]{"MODEL", func(r modelRow) any { return r.ID }},
		column[modelRow]{"UPSTREAM", func(r modelRow) any { return r.Upstream }},
		column[modelRow]{"CONTEXT", func(r modelRow) any { return orUnknown(r.Context) }},
		column[modelRow]{"OUTPUT", func(r modelRow) any { return orUnknown(r.Output) }},
		column[modelRow]{"THINKING", func(r modelRow) any { return yesNo(r.Thinking) }},
	)
}

func orUnknown(n int64) any {
	if n == 0 {
		return "-"
	}
	return n
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// knownUpstream refuses the name of an upstream that nobody configured.
func knownUpstream(cfg *config.Config, name string) error {
	known := []string{}
	for _, u := range cfg.Upstreams {
		known = append(known, u.Name)
	}
	if len(known) == 0 {
		known = append(known, daemon.SimulatorName)
	}
	for _, k := range known {
		if name == "" || name == k {
			return nil
		}
	}
	if near := names.Nearest(name, known, 1); len(near) > 0 {
		return usagef("no upstream %q; did you mean %s?", name, near[0])
	}
	return usagef("no upstream %q; perigee config show lists them", name)
}
