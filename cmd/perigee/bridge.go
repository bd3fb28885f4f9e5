package main

import (
	"context"

	"perigee/internal/cli"
	"perigee/internal/mcp/bridge"
)

func bridgeCommand(ctx context.Context, env *cli.Env, args []string) error {
	return bridge.Command(ctx, env, args, programVersion())
}
