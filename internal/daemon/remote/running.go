package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"perigee"
	"perigee/internal/lib/peeruser"
	"perigee/internal/store/datadir"
)

// A Daemon is a running daemon.
type Daemon struct {
	PID  int
	Dir  string // its data directory
	Unit Unit   // the service of systemd that it is the main process of; zero if there is none

	mark    int // the number in the lock: the next daemon writes another one
	process *os.Process
}

// A Unit is a service of systemd.
type Unit struct {
	Name   string // "perigee.service"
	OfUser bool   // it belongs to the service manager of a user
}

// Systemctl returns the command line that has systemd act on the unit.
func (u Unit) Systemctl(verb string) string {
	if u.OfUser {
		return "systemctl --user " + verb + " " + u.Name
	}
	return "sudo systemctl " + verb + " " + u.Name
}

// Find returns the daemon that uses a data directory; nil if there is none.
func Find(ctx context.Context, dir string) (*Daemon, error) {
	for range 3 { // one that ends or starts concurrently is noticed in the next round
		held, err := datadir.Locked(ctx, dir)
		if err != nil || !held {
			return nil, err
		}
		d := &Daemon{Dir: dir, mark: datadir.Holder(dir)}
		if d.PID = d.identify(ctx); d.PID == 0 {
			continue
		}
		if d.process, err = os.FindProcess(d.PID); err != nil {
			continue
		}
		// A handle stays with its process. If the process is the daemon after the handle was
		// opened, so is the handle's.
		if d.identify(ctx) == d.PID {
			d.Unit = unitOf(d.PID)
			return d, nil
		}
		_ = d.process.Release()
	}
	return nil, fmt.Errorf("a daemon uses %s, but its process cannot be seen here: it may run as another user or in a container; stop it there", dir)
}

// A Listener is the process that listens on a port. The zero value is an unknown one, or none.
type Listener struct {
	PID  int
	Name string
}

// At returns the daemon that listens on the port of an address, whatever its data directory is; nil
// if none is found.
func At(ctx context.Context, address string) *Daemon {
	_, port, _ := net.SplitHostPort(address)
	listener := ListenerOf(port)
	dir := dataDirOf(listener.PID)
	if dir == "" {
		return nil
	}
	d, err := Find(ctx, dir)
	if err != nil || d == nil {
		return nil
	}
	if d.PID != listener.PID {
		d.Close()
		return nil
	}
	return d
}

// identify returns the process ID of the daemon, 0 if it cannot be seen.
func (d *Daemon) identify(ctx context.Context) int {
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "unix", d.socket())
	if err == nil {
		defer func() { _ = conn.Close() }()
		if peer, ok := peeruser.SocketPeer(conn.(*net.UnixConn)); ok && peer.PID > 0 {
			return peer.PID
		}
	}
	if d.mark > 0 && hasOpen(d.mark, datadir.LockPath(d.Dir)) {
		return d.mark
	}
	return 0
}

func (d *Daemon) socket() string { return filepath.Join(d.Dir, datadir.SocketName) }

// Close releases the handle of the process.
func (d *Daemon) Close() { _ = d.process.Release() }

// StopOptions set how long to wait. Zero values of Answer and Last mean 5 and 15 seconds.
type StopOptions struct {
	Drain  time.Duration                    // for open calls, if the daemon does not report how long it waits for them
	Answer time.Duration                    // within which a daemon that works answers on its socket
	Last   time.Duration                    // after Drain, to store everything and end
	Report func(format string, args ...any) // called with messages about unusual events
	Verb   string                           // the systemctl command for a service: stop, restart
}

// Stop stops the daemon after its open calls, and returns when it has ended. A daemon that does not
// answer, or that does not end in time, is killed. One that is being stopped already is only waited
// for, because a second signal would cut off its calls. Of several commands at the same time, one
// sends the signal, and the next may proceed when the daemon reports that it is stopping.
func (d *Daemon) Stop(ctx context.Context, opts StopOptions) error {
	if opts.Answer == 0 {
		opts.Answer = 5 * time.Second
	}
	if opts.Last == 0 {
		opts.Last = 15 * time.Second
	}
	if d.Unit.Name != "" {
		return fmt.Errorf("the daemon (process %d) is the service %s; run %s", d.PID, d.Unit.Name, d.Unit.Systemctl(opts.Verb))
	}
	// The lock is awaited for as long as it takes another command to stop a daemon that hangs.
	unlock, err := datadir.LockStop(ctx, d.Dir, opts.Drain+2*opts.Last+3*opts.Answer)
	if err != nil {
		return err
	}
	defer unlock()
	status, err := d.ask(ctx, opts.Answer)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	hung := err != nil && Running(ctx, d.socket()) // without a socket it cannot answer
	if hung {
		opts.Report("the daemon (process %d) does not answer within %v", d.PID, opts.Answer)
	}
	if !status.Stopping {
		if err := d.signal(syscall.SIGTERM); err != nil {
			return err
		}
	}
	if hung {
		if ended, err := d.wait(ctx, opts.Answer); ended || err != nil {
			return err
		}
		status, err = d.ask(ctx, opts.Answer)
		hung = err != nil
	}
	if !hung {
		limit := cmp.Or(status.StopTime(), opts.Drain) + opts.Last
		if ended, err := d.finish(ctx, status.Stopping, limit, unlock); ended || err != nil {
			return err
		}
		opts.Report("the daemon (process %d) did not end within %v", d.PID, limit)
	}
	opts.Report("killing process %d; calls that were open are cut off", d.PID)
	if err := d.signal(syscall.SIGKILL); err != nil {
		return err
	}
	ended, err := d.wait(ctx, opts.Last)
	if err == nil && !ended {
		err = fmt.Errorf("the daemon (process %d) was killed, but does not end; its disk or network file system may hang", d.PID)
	}
	return err
}

// finish waits until the daemon has ended, at most for limit. It calls unlock when the daemon
// reports that it is stopping.
func (d *Daemon) finish(ctx context.Context, stopping bool, limit time.Duration, unlock func()) (ended bool, err error) {
	over := time.Now().Add(limit)
	for !stopping && time.Now().Before(over) {
		if ended, err := d.wait(ctx, 0); ended || err != nil {
			return ended, err
		}
		status, _ := d.ask(ctx, time.Until(over)) // without an answer, the time to wait stays the same
		stopping = status.Stopping
	}
	if stopping {
		unlock()
	}
	return d.wait(ctx, time.Until(over))
}

// ask asks the daemon for its status.
func (d *Daemon) ask(ctx context.Context, limit time.Duration) (perigee.DaemonStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	status, err := New(d.socket()).Status(ctx)
	// A daemon that refuses the request answers, even if it is of another version.
	if _, refused := errors.AsType[*perigee.Error](err); refused {
		err = nil
	}
	return status, err
}

// signal sends a signal. It is not an error if the process has ended.
func (d *Daemon) signal(sig os.Signal) error {
	err := d.process.Signal(sig)
	switch {
	case err == nil || errors.Is(err, os.ErrProcessDone):
		return nil
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("the daemon (process %d) belongs to another user; run the command as that user", d.PID)
	}
	return fmt.Errorf("the daemon (process %d) cannot be stopped: %w; press Ctrl-C where it runs", d.PID, err)
}

// wait waits until the daemon has ended, at most for limit.
func (d *Daemon) wait(ctx context.Context, limit time.Duration) (ended bool, err error) {
	over := time.Now().Add(limit)
	for {
		held, err := datadir.Locked(ctx, d.Dir) // waits for a moment while it is held
		switch {
		case err != nil:
			return false, err
		case !held || datadir.Holder(d.Dir) != d.mark: // or the next one has it already
			return true, nil
		case !time.Now().Before(over):
			return false, nil
		}
	}
}
