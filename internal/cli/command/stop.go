package command

import (
	"context"
	"fmt"

	"perigee/internal/cli"
	"perigee/internal/daemon"
	"perigee/internal/daemon/remote"
	"perigee/internal/lib/terminal"
	"perigee/internal/store/config"
)

// StopDaemon stops the daemon of a configuration after its open calls, waits for its end, and
// returns its process ID. It returns daemon.ErrNotRunning if there is none. verb is the systemctl
// command for a service, which is not stopped here: stop, restart.
func StopDaemon(ctx context.Context, env *cli.Env, cfg *config.Config, verb string) (pid int, err error) {
	d, err := remote.Find(ctx, cfg.DataDir)
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
	// The daemon reports how long it waits for open calls. The limits of cfg are for a daemon that
	// does not answer.
	return d.PID, d.Stop(ctx, remote.StopOptions{Drain: cfg.Limits.ShutdownDelay + cfg.Limits.Drain, Report: env.Remark, Verb: verb})
}

// An Elsewhere is a daemon that listens on the port of a configuration and uses another data
// directory, as one does that was started before data_dir was changed.
type Elsewhere struct {
	PID  int
	Dir  string // its data directory
	unit remote.Unit
	cfg  *config.Config
}

// FindElsewhere returns the daemon that listens on the port of a configuration, if no daemon uses
// the configured data directory; nil if there is none, or it cannot be seen.
func FindElsewhere(ctx context.Context, cfg *config.Config) *Elsewhere {
	d := remote.At(ctx, cfg.Listen)
	if d == nil {
		return nil
	}
	defer d.Close()
	return &Elsewhere{PID: d.PID, Dir: d.Dir, unit: d.Unit, cfg: cfg}
}

// NotRunning returns daemon.ErrNotRunning with the next step: how to use the daemon that listens on
// the port with another data directory or, if there is none, the given text.
func NotRunning(ctx context.Context, cfg *config.Config, otherwise string) error {
	if other := FindElsewhere(ctx, cfg); other != nil {
		return fmt.Errorf("%w with this configuration: %s; export PERIGEE_DATA_DIR=%s to use it",
			daemon.ErrNotRunning, other, terminal.ShellWord(other.Dir))
	}
	return fmt.Errorf("%w%s", daemon.ErrNotRunning, otherwise)
}

func (e *Elsewhere) String() string {
	return fmt.Sprintf("the perigee at %s (process %d) uses the data directory %s, and the configuration says %s", e.cfg.Listen, e.PID, e.Dir, e.cfg.DataDir)
}

// Stop returns the command that stops it.
func (e *Elsewhere) Stop() string {
	if e.unit.Name != "" {
		return e.unit.Systemctl("stop")
	}
	return "PERIGEE_DATA_DIR=" + terminal.ShellWord(e.Dir) + " perigee stop"
}

// Restart returns the command that stops it and starts the daemon of the configuration.
func (e *Elsewhere) Restart() string {
	if e.unit.Name != "" {
		return e.unit.Systemctl("restart")
	}
	return e.Stop() + " && perigee serve"
}
