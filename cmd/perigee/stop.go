package main

import (
	"context"
	"fmt"

	"perigee/internal/cli"
	"perigee/internal/command"
)

// stopCommand stops the running daemon.
func stopCommand(ctx context.Context, env *cli.Env, args []string) error {
	if _, err := env.Parse(args, 0); err != nil {
		return err
	}
	loaded, err := command.Load(env, command.NoSecrets)
	if err != nil {
		return err
	}
	pid, err := command.StopDaemon(ctx, env, loaded.Config, "stop")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(env.Stdout, "stopped: process %d\n", pid)
	return err
}
