package doctor

import (
	"context"
	"flag"
	"fmt"
	"time"

	"perigee/internal/cli"
	"perigee/internal/intercept/truststore"
	"perigee/internal/lib/terminal"
)

// defaultLimit is how long each check may take.
const defaultLimit = 5 * time.Second

// Command is perigee doctor: it checks this machine and prints the results. Something that failed
// is an error. With --profile it records a profile of the daemon instead. machine is where trust
// stores are looked for.
func Command(ctx context.Context, env *cli.Env, args []string, machine truststore.Machine) error {
	e := examination{env: env, machine: machine}
	env.Flags.BoolVar(&e.offline, "offline", false, "")
	env.Flags.DurationVar(&e.limit, "timeout", defaultLimit, "")
	profile := env.Flags.Duration("profile", 0, "")
	if _, err := env.Parse(args, 0); err != nil {
		return err
	}
	profiled := false
	env.Flags.Visit(func(f *flag.Flag) { profiled = profiled || f.Name == "profile" })
	if profiled {
		return recordProfile(ctx, env, *profile)
	}
	if e.limit <= 0 {
		return cli.Usagef("doctor: --timeout takes a duration such as 30s")
	}
	results := e.run(ctx)
	if ctx.Err() != nil {
		return fmt.Errorf("doctor: %w", cli.ErrInterrupted)
	}
	if err := print(env, results); err != nil {
		return err
	}
	if failed := count(results, Fail); failed > 0 {
		return fmt.Errorf("doctor: %s", terminal.Number(failed, "check failed", "checks failed"))
	}
	return nil
}
