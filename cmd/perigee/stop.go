package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"perigee/internal/cli"
	"perigee/internal/cli/command"
	"perigee/internal/daemon"
	"perigee/internal/store/config"
)

// stopCommand stops the running daemon.
func stopCommand(ctx context.Context, env *cli.Env, args []string) error {
	if _, err := env.Parse(args, 0); err != nil {
		return err
	}
	loaded, _, problems := command.Salvage(ctx, env, config.Sources{Path: env.Config, Spare: command.NoSecrets})
	if problems != nil {
		if !command.RunsAnyway(ctx, loaded, problems) {
			return problems
		}
		for line := range strings.SplitSeq(problems.Error(), "\n") {
			env.Remark("warning: %s", line)
		}
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
