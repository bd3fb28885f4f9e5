package main

import (
	"context"

	"perigee/internal/bridge"
	"perigee/internal/cli"
)

func bridgeCommand(ctx context.Context, env *cli.Env, args []string) error {
	return bridge.Command(ctx, env, args, programVersion())
}
