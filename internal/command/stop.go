package command

import (
	"context"

	"perigee/internal/cli"
	"perigee/internal/config"
	"perigee/internal/daemon"
	"perigee/internal/daemon/running"
)

// StopDaemon has the daemon of a configuration finish its open calls, waits for its end, and returns its process ID. It returns
// daemon.ErrNotRunning if there is none. verb is what systemd should do with a service, which is not stopped here: stop, restart.
func StopDaemon(ctx context.Context, env *cli.Env, cfg *config.Config, verb string) (pid int, err error) {
	d, err := running.Find(ctx, cfg.DataDir)
	if err != nil {
		return 0, err
	}
	if d == nil {
		return 0, daemon.ErrNotRunning
	}
	defer d.Close()
	progress := env.Progress(ctx)
	defer progress.Close()
	progress.Step("waiting for the daemon (process %d) to end", d.PID)
	return d.PID, d.Stop(ctx, running.StopOptions{Drain: cfg.Limits.ShutdownDelay + cfg.Limits.Drain, Report: env.Say, Verb: verb})
}
