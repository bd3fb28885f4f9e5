package main

import (
	"context"
	"log/slog"

	"perigee/internal/cli"
	"perigee/internal/cli/command"
	"perigee/internal/cli/mitmcmd"
)

func mitmCommand(ctx context.Context, env *cli.Env, args []string) error {
	return mitmcmd.Command(ctx, env, args, func() (*mitmcmd.Settings, error) {
		loaded, err := command.Load(env, func(key string) bool { return key != "interception.upstream_proxy" })
		if err != nil {
			return nil, err
		}
		out := newReporter(env, loaded.Config)
		for _, warning := range loaded.Warnings {
			out.report(slog.LevelWarn, warning.String())
		}
		i := loaded.Config.Interception
		return &mitmcmd.Settings{
			Listen: i.Listen, Hosts: i.Hosts, UpstreamCA: i.UpstreamCA, UpstreamProxy: i.UpstreamProxy,
			DataDir: loaded.Config.DataDir, Version: programVersion(), Logger: out.logger,
		}, nil
	})
}
