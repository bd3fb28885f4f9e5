package main

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"perigee"
	"perigee/internal/config"
)

var modelsCommand = command{
	name:    "models",
	summary: "list models",
	run:     models,
	usage: `usage: perigee models [--upstream NAME] [--json]

  perigee models
  perigee models --upstream studio --json

Lists the models of all upstreams. An alias is shown with the model that it
stands for, and * marks the default, which answers requests that name none. A
running daemon is asked; without one the upstreams are.

  --upstream NAME  only the models of this upstream
  --json           a JSON array: id, upstream, context, output, thinking, and
                   alias_of or default where they apply
  --config FILE    the configuration
`,
}

func models(ctx context.Context, env *environment, args []string) error {
	var src config.Sources
	set := flags(env, &src.Path)
	upstream := set.String("upstream", "", "")
	asJSON := set.Bool("json", false, "")
	if err := parse(env, set, args, 0); err != nil {
		return err
	}
	sparing := src
	sparing.Spare = noSecrets
	loaded, err := config.Load(sparing)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	handle, err := openControl(ctx, env, src, notForUpstreams)
	if err != nil {
		return misused(err)
	}
	defer handle.Close()
	found, err := handle.Models(ctx, *upstream)
	if e := perigee.AsError(err); e != nil && e.Class == perigee.ClassNotFound && *upstream != "" {
		// The daemon knows better than this shell, whose environment may be another one; the file has the nearest name.
		return cmp.Or(knownUpstream(loaded.Config, *upstream), usagef("%s", e.Message))
	}
	if err != nil {
		return misused(notSignedIn(ctx, handle, loaded.Config, err))
	}
	for _, p := range found.Problems {
		env.say("no models from %s: %s", p.Upstream, printable(p.Why))
	}
	return list(env, *asJSON, found.Rows,
		column[perigee.ModelRow]{"MODEL", func(r perigee.ModelRow) any { return modelName(r) }},
		column[perigee.ModelRow]{"UPSTREAM", func(r perigee.ModelRow) any { return r.Upstream }},
		column[perigee.ModelRow]{"CONTEXT", func(r perigee.ModelRow) any { return orUnknown(r.Context) }},
		column[perigee.ModelRow]{"OUTPUT", func(r perigee.ModelRow) any { return orUnknown(r.Output) }},
		column[perigee.ModelRow]{"THINKING", func(r perigee.ModelRow) any { return yesNo(r.Thinking) }},
	)
}

// modelName is a model with what it stands for, and a mark if it is the default.
func modelName(r perigee.ModelRow) string {
	name := r.ID
	if r.AliasOf != "" {
		name += " → " + r.AliasOf
	}
	if r.Default {
		name += " *"
	}
	return name
}

// notForUpstreams is for commands that ask upstreams, and use no other secrets than theirs.
func notForUpstreams(key string) bool { return !strings.HasPrefix(key, "upstreams[") }

// notSignedIn says of an error that it is about accounts, where no upstream could be asked because there is no usable account.
func notSignedIn(ctx context.Context, control perigee.Control, cfg *config.Config, err error) error {
	for _, u := range cfg.Upstreams {
		if u.Kind != config.KindAntigravity {
			return err
		}
	}
	rows, failed := control.Accounts(ctx)
	usable := func(row perigee.AccountRow) bool { return row.Enabled && perigee.UsableState(row.State) }
	if failed != nil || len(cfg.Upstreams) == 0 || slices.ContainsFunc(rows, usable) {
		return err
	}
	return perigee.Errorf(perigee.ClassUnauthenticated, "%w", err)
}

func orUnknown(n int64) any {
	if n == 0 {
		return "-"
	}
	return amount(n)
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
