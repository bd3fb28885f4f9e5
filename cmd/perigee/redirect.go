package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"perigee/internal/cli"
	"perigee/internal/intercept/redirect"
)

func redirectCommand(ctx context.Context, env *cli.Env, args []string) error {
	switch word, err := env.Subcommand(args); {
	case err != nil:
		return err
	case word == "install":
		return installRedirect(ctx, env, args[1:])
	case word == "remove":
		return removeRedirect(ctx, env, args[1:])
	}
	return redirectStatus(ctx, env, args[1:])
}

func installRedirect(ctx context.Context, env *cli.Env, args []string) error {
	var q redirect.Request
	env.Flags.StringVar(&q.User, "user", "", "")
	env.Flags.IntVar(&q.Port, "port", redirect.DefaultPort, "")
	env.Flags.StringVar(&q.Backend, "backend", "", "")
	env.Flags.BoolVar(&q.Persist, "persist", false, "")
	if _, err := env.Parse(args, 0); err != nil {
		return err
	}
	status, err := redirect.New().Install(ctx, q)
	if _, invalid := errors.AsType[*redirect.InvalidError](err); invalid {
		return cli.Usagef("redirect install: %s", err)
	}
	if err != nil {
		return fmt.Errorf("redirect install: %w", err)
	}
	return printRedirect(env, status)
}

func redirectStatus(ctx context.Context, env *cli.Env, args []string) error {
	if _, err := env.Parse(args, 0); err != nil {
		return err
	}
	status, err := redirect.New().Status(ctx)
	if err != nil {
		return fmt.Errorf("redirect status: %w", err)
	}
	if err := printRedirect(env, status); err != nil {
		return err
	}
	if status.Problem != "" {
		return fmt.Errorf("redirect status: %s", status.Problem)
	}
	return nil
}

func printRedirect(env *cli.Env, status redirect.Status) error {
	switch {
	case env.JSON:
		return cli.WriteJSON(env, status)
	case status.Installed:
		restored := ""
		if status.Persistent {
			restored = ", restored after a restart of the system"
		}
		fmt.Fprintf(env.Stdout, "connections of the user %s (%d) to port 443 go to port %d (%s%s)\n", status.User, status.UID, status.Port, status.Backend, restored)
	case status.Problem != "":
		fmt.Fprintln(env.Stdout, "the redirect is not complete")
	default:
		fmt.Fprintln(env.Stdout, "no redirect is installed")
	}
	return nil
}

func removeRedirect(ctx context.Context, env *cli.Env, args []string) error {
	if _, err := env.Parse(args, 0); err != nil {
		return err
	}
	removed, err := redirect.New().Remove(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("redirect remove: %w", err)
	case env.JSON:
		return cli.WriteJSON(env, map[string][]string{"removed": append([]string{}, removed...)})
	case len(removed) == 0:
		fmt.Fprintln(env.Stdout, "no redirect is installed")
	default:
		fmt.Fprintf(env.Stdout, "removed: %s\n", strings.Join(removed, ", "))
	}
	return nil
}
