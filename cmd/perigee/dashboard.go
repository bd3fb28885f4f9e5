package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"perigee/internal/cli"
	"perigee/internal/cli/command"
	"perigee/internal/daemon"
	"perigee/internal/daemon/remote"
	"perigee/internal/observe/dashboard"
)

// dashboardCommand prints a link that signs a browser in to the dashboard of the running daemon,
// and opens it.
func dashboardCommand(ctx context.Context, env *cli.Env, args []string) error {
	noBrowser := env.Flags.Bool("no-browser", false, "")
	if _, err := env.Parse(args, 0); err != nil {
		return err
	}
	loaded, err := command.Load(env, command.NoSecrets)
	if err != nil {
		return err
	}
	client, err := daemon.Reach(ctx, loaded.Config)
	if errors.Is(err, daemon.ErrNotRunning) {
		return command.NotRunning(ctx, loaded.Config, "; start one with perigee serve")
	}
	if err != nil {
		return err
	}
	ticket, err := remote.Ask[dashboard.Ticket](ctx, client, http.MethodPost, dashboard.TicketPath, nil)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(env.Stdout, ticket.URL); err != nil {
		return err
	}
	switch {
	case !*noBrowser && cli.OpenBrowser(ctx, ticket.URL):
		env.Remark("opening the dashboard in a browser; the link works once, within a minute")
	default:
		env.Remark("open the link in a browser; it works once, within a minute")
	}
	return nil
}
