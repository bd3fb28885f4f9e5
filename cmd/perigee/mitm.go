package main

import (
	"context"
	"log/slog"

	"perigee/internal/cli"
	"perigee/internal/cli/command"
)

func mitmCommand(ctx context.Context, env *cli.Env, args []string) error {
	return interceptCommand(ctx, env, args, func() (*mitmSettings, error) {
		loaded, err := command.Load(env, func(key string) bool { return key != "interception.upstream_proxy" })
		if err != nil {
			return nil, err
		}
		out := newReporter(env, loaded.Config)
		for _, warning := range loaded.Warnings {
			out.report(slog.LevelWarn, warning.String())
		}
		i := loaded.Config.Interception
		return &mitmSettings{
			Listen: i.Listen, Hosts: i.Hosts, UpstreamCA: i.UpstreamCA, UpstreamProxy: i.UpstreamProxy,
			DataDir: loaded.Config.DataDir, Version: programVersion(), Logger: out.logger,
		}, nil
	})
}
