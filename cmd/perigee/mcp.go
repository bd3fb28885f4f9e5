package main

import (
	"context"
	"log/slog"

	"perigee/internal/cli"
	"perigee/internal/cli/command"
	"perigee/internal/cli/mcpcmd"
	"perigee/internal/daemon"
)

func mcpCommand(ctx context.Context, env *cli.Env, args []string) error {
	return mcpcmd.Command(ctx, env, args, func() (*mcpcmd.Owner, error) {
		loaded, err := command.Load(env, command.NoSecrets)
		if err != nil {
			return nil, err
		}
		out := newReporter(env, loaded.Config)
		if out.level.Level() == slog.LevelInfo {
			out.level.Set(slog.LevelWarn) // clients show the text on stderr
		}
		options := func() (daemon.Options, error) {
			loaded, err := command.Load(env, command.ExceptUpstreams)
			return daemon.Options{Loaded: loaded, Version: programVersion(), Logger: out.logger}, err
		}
		return mcpcmd.NewOwner(daemon.Options{Loaded: loaded, Version: programVersion(), Logger: out.logger}, options), nil
	})
}
