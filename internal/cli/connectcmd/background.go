package connectcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"perigee"
	"perigee/internal/cli"
	"perigee/internal/cli/command"
	"perigee/internal/daemon"
	"perigee/internal/lib/procgroup"
	"perigee/internal/lib/terminal"
	"perigee/internal/store/config"
	"perigee/internal/store/datadir"
)

// backgroundFlag is the flag with which perigee run starts itself as the daemon. It is not for
// users.
const backgroundFlag = "background"

const (
	startTime = time.Minute            // in which a daemon listens
	pollTime  = 50 * time.Millisecond  // between looks at a daemon that starts
	leaseTime = 500 * time.Millisecond // between looks at the leases
)

// maxSocketPath returns the longest path of a Unix socket.
func maxSocketPath() int {
	if runtime.GOOS == "linux" {
		return 107
	}
	return 103
}

// newLog makes a new log for a daemon that perigee run starts. The log of the previous daemon,
// which may have the reason why it ended, stays as run.log.1.
func newLog(path string) (*os.File, error) {
	if err := os.Rename(path, path+".1"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

// reachDaemon returns the status of the running daemon, and starts one if there is none.
func reachDaemon(ctx context.Context, env *cli.Env, loaded *config.Loaded, leases leaseDir) (perigee.DaemonStatus, error) {
	cfg := loaded.Config
	done, err := leases.Turn(ctx)
	if err != nil {
		return perigee.DaemonStatus{}, err
	}
	defer done()
	status, err := daemon.Status(ctx, cfg)
	if err == nil && status.Stopping {
		env.Remark("the running daemon is stopping; waiting for its open calls")
		status, err = nextDaemon(ctx, cfg)
	}
	if !errors.Is(err, daemon.ErrNotRunning) {
		return status, err
	}
	if path := daemon.SocketPath(cfg); len(path) > maxSocketPath() {
		return status, perigee.Errorf(perigee.ClassInvalid, "the path of the daemon's socket, %s, has %d bytes, and at most %d are possible", path, len(path), maxSocketPath()).
			WithHint("choose a shorter data_dir, or run perigee serve yourself and use perigee connect")
	}
	path := filepath.Join(cfg.DataDir, datadir.RunLogName)
	log, err := newLog(path)
	if err != nil {
		return status, err
	}
	defer func() { _ = log.Close() }()
	self, err := os.Executable()
	if err != nil {
		return status, err
	}
	cmd := exec.Command(self, "run", "--"+backgroundFlag)
	if env.Config != "" {
		cmd.Args = append(cmd.Args, "--config", env.Config)
	}
	cmd.Stderr = log
	procgroup.Detach(cmd)
	if err := cmd.Start(); err != nil {
		return status, err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	limit := time.NewTimer(startTime)
	defer limit.Stop()
	for {
		status, err := daemon.Status(ctx, cfg)
		if err == nil {
			return status, nil
		}
		select {
		case <-ctx.Done(): // the daemon ends, because this process gives up its lease
			return status, fmt.Errorf("run: %w", context.Cause(ctx))
		case <-ended:
			return status, perigee.Errorf(perigee.ClassUnavailable, "the daemon did not start: %s", lastLine(path)).WithHint("perigee serve shows more")
		case <-limit.C:
			return status, perigee.Errorf(perigee.ClassUnavailable, "the daemon does not answer (%v)", err).WithHint("its log is %s", path)
		case <-time.After(pollTime):
		}
	}
}

// nextDaemon waits until a daemon that is stopping has ended, and returns the status of the one
// that has taken its place, or daemon.ErrNotRunning.
func nextDaemon(ctx context.Context, cfg *config.Config) (perigee.DaemonStatus, error) {
	for {
		held, err := datadir.Locked(ctx, cfg.DataDir) // waits for a moment while it is held
		if err != nil || !held {
			return perigee.DaemonStatus{}, cmp.Or(err, error(daemon.ErrNotRunning))
		}
		status, err := daemon.Status(ctx, cfg)
		if err == nil && !status.Stopping || ctx.Err() != nil {
			return status, err
		}
	}
}

// lastLine returns the last message in a log.
func lastLine(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return strings.TrimPrefix(terminal.Printable(lines[len(lines)-1]), "perigee: ")
}

// background is the daemon that perigee run starts. It ends when no process holds a lease.
func background(ctx context.Context, env *cli.Env) error {
	src := sources(env)
	loaded, err := config.Load(src)
	if err == nil {
		loaded, err = command.AwaitWhole(ctx, env, src, loaded)
	}
	if err != nil {
		return err
	}
	level := new(slog.LevelVar)
	terminal.SetLevel(level, loaded.Config.Log)
	options := daemon.Options{
		Loaded: loaded, Sources: src, Poll: time.Second, Version: env.Program.Version, LogLevel: level,
		Logger: slog.New(slog.NewTextHandler(env.Stderr, &slog.HandlerOptions{Level: level})),
	}
	d, err := daemon.Start(ctx, options)
	if errors.Is(err, syscall.EADDRINUSE) { // by another program: clients get the address, so any port works
		var free net.Listener
		if free, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return err
		}
		options.Listeners = []net.Listener{free}
		d, err = daemon.Start(ctx, options)
	}
	if err != nil {
		return cli.ListenError(err, loaded.Config.Listen)
	}
	options.Logger.Info("listening", "url", d.URL())
	leases := leasesOf(loaded.Config)
	for {
		select {
		case <-ctx.Done():
			stop(d)
			return nil
		case err := <-d.Failed():
			stop(d)
			return fmt.Errorf("the listener failed: %w", err)
		case <-time.After(leaseTime):
		}
		if ended, err := endIfUnused(ctx, d, leases); ended || err != nil {
			return err
		}
	}
}

// endIfUnused stops the daemon if no process holds a lease. A process that starts now waits until
// the daemon has ended.
func endIfUnused(ctx context.Context, d *daemon.Daemon, leases leaseDir) (ended bool, err error) {
	done, err := leases.Turn(ctx)
	if err != nil {
		return false, nil // a client is being started
	}
	defer done()
	held, err := leases.InUse(ctx)
	if err != nil || held {
		return false, err
	}
	stop(d)
	return true, nil
}

func stop(d *daemon.Daemon) {
	ctx, cancel := context.WithTimeout(context.Background(), d.StopTime())
	defer cancel()
	d.Stop(ctx)
}
