package main

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"perigee"
	"perigee/internal/cli"
	"perigee/internal/cli/command"
	"perigee/internal/lib/terminal"
	"perigee/internal/store/config"
)

// listTime is how long the upstreams have for their lists of models.
const listTime = 30 * time.Second

func models(ctx context.Context, env *cli.Env, args []string) error {
	upstream := env.Flags.String("upstream", "", "")
	if _, err := env.Parse(args, 0); err != nil {
		return err
	}
	loaded, err := command.Load(env, command.NoSecrets)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	handle, err := command.Connect(ctx, env, loaded, command.ExceptUpstreams)
	if err != nil {
		return command.Misused(err)
	}
	defer handle.Close()
	found, err := handle.Models(ctx, *upstream, false)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return lateLists(loaded.Config, *upstream)
	}
	if e := perigee.AsError(err); e != nil && e.Class == perigee.ClassNotFound && *upstream != "" {
		// The daemon's environment may differ from this shell's, so it decides; the nearest name
		// comes from the file.
		return cmp.Or(command.KnownUpstream(loaded.Config, *upstream), cli.Usagef("%s", e.Message))
	}
	if err != nil {
		return command.Misused(notSignedIn(ctx, handle.Control, loaded.Config, err))
	}
	for _, p := range found.Problems {
		env.Remark("no models from %s: %s", p.Upstream, terminal.Printable(p.Why))
	}
	return cli.List(env, found.Rows, []string{"MODEL", "UPSTREAM", "CONTEXT", "OUTPUT", "THINKING"}, func(r perigee.ModelRow) []any {
		name := r.ID
		if r.AliasOf != "" {
			name += " → " + r.AliasOf
		}
		if r.Default {
			name += " *"
		}
		thinking := "-" // the row does not distinguish a model that does not think from an unknown one
		if r.Thinking {
			thinking = "yes"
		}
		return []any{name, r.Upstream, orUnknown(r.Context), orUnknown(r.Output), thinking}
	})
}

// lateLists returns the error for lists of models that have not come within listTime: of an upstream,
// or of all in the configuration if the name is empty.
func lateLists(cfg *config.Config, upstream string) error {
	if upstream == "" && len(cfg.Upstreams) == 1 {
		upstream = cfg.Upstreams[0].Name
	}
	what := "no upstream has"
	if upstream != "" {
		what = "upstream " + upstream + " has not"
	}
	return perigee.Errorf(perigee.ClassUnavailable, "%s listed its models within %s", what, listTime).
		WithHint("perigee doctor tests the upstreams; check url in the configuration")
}

func orUnknown(tokens int64) any {
	if tokens == 0 {
		return "-"
	}
	return terminal.Count(tokens)
}

// notSignedIn gives an error the class unauthenticated if all upstreams have accounts and none of
// the accounts is usable.
func notSignedIn(ctx context.Context, control perigee.Control, cfg *config.Config, err error) error {
	if len(cfg.Upstreams) == 0 || len(command.WithAccounts(cfg)) < len(cfg.Upstreams) {
		return err
	}
	rows, failed := control.Accounts(ctx)
	usable := func(row perigee.AccountRow) bool { return row.Enabled && perigee.UsableState(row.State) }
	if failed != nil || slices.ContainsFunc(rows, usable) {
		return err
	}
	return perigee.Errorf(perigee.ClassUnauthenticated, "%w", err)
}
