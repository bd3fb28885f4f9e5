package main

import (
	"context"
	"strings"

	"perigee/internal/cli"
	"perigee/internal/lib/terminal"
	"perigee/internal/mcp/bridge"
)

// bridgeCommand is perigee bridge list: the windows of editors that perigee's extension announces.
func bridgeCommand(ctx context.Context, env *cli.Env, args []string) error {
	if _, err := env.Subcommand(args); err != nil {
		return err
	}
	if _, err := env.Parse(args[1:], 0); err != nil {
		return err
	}
	dir, err := bridge.Dir()
	if err != nil {
		return err
	}
	rows, problems, err := bridge.List(ctx, dir, programVersion())
	if err != nil {
		return err
	}
	for _, p := range problems {
		env.Remark("%s", terminal.Printable(p.String())) // the directory can have any names
	}
	if len(rows) == 0 {
		env.Remark("no editor window is announced in %s; install perigee's extension in the editor and open a window", dir)
		if !env.JSON {
			return nil
		}
	}
	return cli.List(env, rows, []string{"PID", "IDE", "VERSION", "PORT", "STATE", "WORKSPACE"}, func(r bridge.Row) []any {
		return []any{r.PID, r.IDE, r.Version, r.Port, string(r.State), strings.Join(r.Workspace, " ")}
	})
}
