package main

import (
	"context"
	"errors"
	"fmt"

	"perigee/internal/cli"
	"perigee/internal/cli/command"
	"perigee/internal/daemon"
	"perigee/internal/lib/terminal"
)

// healthCommand prints whether the running daemon can answer calls. A configuration that has become
// invalid does not matter: the daemon has another one.
func healthCommand(ctx context.Context, env *cli.Env, args []string) error {
	if _, err := env.Parse(args, 0); err != nil {
		return err
	}
	loaded, err := command.SalvageRunning(ctx, env)
	if err != nil {
		return err
	}
	answer, err := daemon.Ready(ctx, loaded.Config)
	switch {
	case errors.Is(err, daemon.ErrNotRunning):
		return command.NotRunning(ctx, loaded.Config, "; start one with perigee serve")
	case err != nil:
		return err
	case env.JSON:
		if err := cli.WriteJSON(env, answer); err != nil {
			return err
		}
	default:
		fmt.Fprintln(env.Stdout, terminal.Printable(answer.Status))
	}
	if answer.Status == "ready" {
		return nil
	}
	for _, reason := range answer.Reasons {
		env.Remark("%s", terminal.Printable(reason))
	}
	return &command.ExitStatus{Code: exitFailed}
}
