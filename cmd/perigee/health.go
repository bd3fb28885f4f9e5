package main

import (
	"context"
	"fmt"

	"perigee/internal/cli"
	"perigee/internal/cli/command"
	"perigee/internal/daemon"
	"perigee/internal/store/config"
)

// healthCommand prints whether the running daemon can answer calls. A configuration that has become
// invalid does not matter: the daemon has another one.
func healthCommand(ctx context.Context, env *cli.Env, args []string) error {
	if _, err := env.Parse(args, 0); err != nil {
		return err
	}
	loaded, _, problems := command.Salvage(ctx, env, config.Sources{Path: env.Config, Spare: command.NoSecrets})
	answer, err := daemon.Ready(ctx, loaded.Config)
	switch {
	case err != nil && problems != nil:
		return problems
	case err != nil:
		return err
	case env.JSON:
		if err := cli.WriteJSON(env, answer); err != nil {
			return err
		}
	default:
		fmt.Fprintln(env.Stdout, answer.Status)
	}
	if answer.Status == "ready" {
		return nil
	}
	for _, reason := range answer.Reasons {
		env.Remark("%s", reason)
	}
	return &command.ExitStatus{Code: exitFailed}
}
