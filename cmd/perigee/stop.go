package main

import (
	"context"
	"errors"
	"fmt"

	"perigee/internal/cli"
	"perigee/internal/cli/command"
	"perigee/internal/daemon"
)

// stopCommand stops the running daemon.
func stopCommand(ctx context.Context, env *cli.Env, args []string) error {
	if _, err := env.Parse(args, 0); err != nil {
		return err
	}
	loaded, err := command.SalvageRunning(ctx, env)
	if err != nil {
		return err
	}
	pid, err := command.StopDaemon(ctx, env, loaded.Config, "stop")
	if errors.Is(err, daemon.ErrNotRunning) {
		if other := command.FindElsewhere(ctx, loaded.Config); other != nil {
			return fmt.Errorf("%w with this configuration: %s; stop it with %s", err, other, other.Stop())
		}
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(env.Stdout, "stopped: process %d\n", pid)
	return err
}
