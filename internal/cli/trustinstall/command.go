package trustinstall

import (
	"context"
	"fmt"
	"strings"
	"time"

	"perigee/internal/cli"
	"perigee/internal/intercept/truststore"
	"perigee/internal/lib/terminal"
)

// Command is the command perigee ca. open returns the CA of the configuration, when the command
// line is right.
func Command(ctx context.Context, env *cli.Env, args []string, open func() (*CA, error)) error {
	word, err := env.Subcommand(args)
	if err != nil {
		return err
	}
	store, yes := truststore.System, false
	if word == "install" {
		env.Flags.StringVar(&store, "store", store, "")
		env.Flags.BoolVar(&yes, "yes", false, "")
	}
	if _, err := env.Parse(args[1:], 0); err != nil {
		return err
	}
	switch {
	case env.JSON && word != "show":
		return cli.Usagef("ca %s: --json is for show", word)
	case store != truststore.System && store != truststore.NSS:
		return cli.Usagef("ca install: no store %q; --store takes system or nss", store)
	}
	ca, err := open()
	if err != nil {
		return err
	}
	ca.Remark = func(format string, args ...any) { env.Remark("%s", terminal.Printable(fmt.Sprintf(format, args...))) }
	work := func() ([]string, error) { return show(ctx, env, ca) }
	switch word {
	case "install":
		plan, err := ca.Plan(ctx, store)
		if err != nil {
			return fmt.Errorf("ca install: %w", err)
		}
		if err := confirm(ctx, env, plan, yes); err != nil {
			return err
		}
		work = func() ([]string, error) { return plan.Run(ctx) }
	case "remove":
		work = func() ([]string, error) { return ca.Remove(ctx) }
	}
	done, err := work()
	for _, line := range done {
		fmt.Fprintln(env.Stdout, terminal.Printable(env.Hint(line)))
	}
	if err != nil {
		return fmt.Errorf("ca %s: %w", word, err)
	}
	return nil
}

func show(ctx context.Context, env *cli.Env, ca *CA) (lines []string, err error) {
	status, err := ca.Status(ctx)
	if err != nil {
		return nil, err
	}
	if env.JSON {
		return nil, cli.WriteJSON(env, status)
	}
	installed := strings.Join(status.Places, ", ")
	if installed == "" {
		installed = "in no store"
	}
	for _, row := range [][2]string{{"path", status.Path}, {"fingerprint", status.Fingerprint},
		{"not after", status.NotAfter.Format(time.RFC3339)}, {"hosts", strings.Join(status.Hosts, " ")}, {"installed", installed}} {
		lines = append(lines, fmt.Sprintf("%-13s%s", row[0], row[1]))
	}
	return lines, nil
}

// confirm describes an installation and asks for confirmation, unless there is nothing to do.
func confirm(ctx context.Context, env *cli.Env, plan *Plan, yes bool) error {
	if plan.Done {
		return nil
	}
	plan.Describe()
	if yes {
		return nil
	}
	return env.Confirm(ctx, "do that?", "pass --yes to do that")
}
