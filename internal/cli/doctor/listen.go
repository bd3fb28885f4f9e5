package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"perigee"
)

// A Daemon is the state that was read from the socket of the data directory.
type Daemon struct {
	Status *perigee.DaemonStatus // nil if no daemon was reached
	Err    error                 // why a running daemon could not be asked; nil if it could
	// Silent is how long a daemon that accepts connections did not answer. It is 0 if it answered,
	// or if there was another error.
	Silent time.Duration
	PID    int // 0 if unknown
	// Stale explains in a sentence why the daemon has other secrets than this shell. It is empty if
	// the secrets are the same, or if that is unknown.
	Stale string
	// NotCompared is why the daemon's variables could not be compared with this shell's.
	NotCompared error
	Restart     string // the command that restarts its service; empty if it is not a service
	Address     string // in the configuration
	Owner       Owner  // of the port of Address, if no daemon was reached
}

// restart returns a command that starts the daemon again, after its open calls.
func (d Daemon) restart() string {
	switch {
	case d.Restart != "":
		return d.Restart
	case d.PID != 0 && runtime.GOOS == "windows":
		return fmt.Sprintf("taskkill /pid %d && perigee serve", d.PID)
	}
	return d.Status.ReplaceCommand(d.Address)
}

// Listen checks that the daemon accepts connections or, if none runs, whether it could listen at
// its address.
func Listen(ctx context.Context, address string, d Daemon) Result {
	switch {
	case d.Silent > 0:
		return fail(NameListen, d.restart(), "the daemon%s does not answer within %v", d.process(" (", ")"), d.Silent)
	case d.Err != nil:
		return fail(NameListen, d.restart(), "%v", d.Err)
	case d.Status != nil:
		return listening(ctx, address, d)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err == nil {
		_ = listener.Close()
		return warn(NameListen, "perigee serve", "no daemon is running; %s is free; perigee service install starts one with your session", address)
	}
	const elsewhere = "perigee serve --listen 127.0.0.1:0"
	_, port, _ := net.SplitHostPort(address)
	_, noName := errors.AsType[*net.DNSError](err)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		switch {
		case d.Owner.Name == "systemd":
			return warn(NameListen, "systemctl start perigee.service", "no daemon is running; systemd listens at %s and starts it with the first call", address)
		case d.Owner.Restart != "":
			return fail(NameListen, d.Owner.Restart, "%s", d.Owner.Why)
		}
		return fail(NameListen, elsewhere, "no daemon uses this data directory, and %s has port %s", d.Owner, port)
	case errors.Is(err, syscall.EADDRNOTAVAIL), noName:
		return fail(NameListen, "perigee serve --listen "+commandLine("127.0.0.1:"+port), "%s is not an address of this machine", address)
	case errors.Is(err, fs.ErrPermission):
		return fail(NameListen, elsewhere, "this user may not listen on port %s", port)
	}
	return fail(NameListen, elsewhere, "%v", err)
}

// listening connects to the address that the daemon reports.
func listening(ctx context.Context, configured string, d Daemon) Result {
	listens := d.Status.Listen
	network, target := "tcp", listens
	if u, err := url.Parse(listens); err == nil && u.Host != "" {
		target = u.Host
	}
	if path, isSocket := strings.CutPrefix(listens, "unix:"); isSocket {
		network, target = "unix", path
	}
	if d.Status.Stopping {
		return look(warn(NameListen, "perigee serve", "the daemon%s is stopping and waits for its open calls; start it again after that", d.process(" (", ")")))
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, network, reachable(target))
	if err != nil {
		return fail(NameListen, d.restart(), "a daemon is running, but %s cannot be reached: %v", listens, err)
	}
	_ = conn.Close()
	more := ""
	if _, port, err := net.SplitHostPort(configured); err == nil && network == "tcp" && port != "0" && !strings.HasSuffix(target, ":"+port) {
		more = "; the configuration says " + configured
	}
	return ok(NameListen, "listening on %s%s", listens, more)
}

// reachable returns an address to connect to: this machine's if the daemon listens on all
// addresses.
func reachable(target string) string {
	host, port, err := net.SplitHostPort(target)
	if ip := net.ParseIP(host); err == nil && (host == "" || ip != nil && ip.IsUnspecified()) {
		return net.JoinHostPort("localhost", port)
	}
	return target
}

// An Owner is the process that listens on a port. The zero value is an unknown one.
type Owner struct {
	PID  int
	Name string
	// A daemon with another data directory: a description in a sentence, and the command that
	// starts it again with this one.
	Why, Restart string
}

func (o Owner) String() string {
	if o.PID == 0 {
		return "another program"
	}
	return fmt.Sprintf("%s (process %d)", o.Name, o.PID)
}

// Version compares the program of the running daemon with this one.
func Version(version, configPath string, d Daemon) Result {
	switch {
	case d.Status.Version != version:
		return warn(NameDaemon, d.restart(), "the daemon is perigee %s, and this command is %s", d.Status.Version, version)
	case d.Status.Refused != "":
		return warn(NameDaemon, d.restart(), "the daemon refused the changed configuration file and runs with what was there before: %s", d.Status.Refused)
	case configPath != "" && d.Status.Configuration != configPath:
		running := "no configuration file"
		if d.Status.Configuration != "" {
			running = d.Status.Configuration
		}
		return warn(NameDaemon, d.restart(), "the daemon runs with %s, and this command reads %s", running, configPath)
	}
	switch pending := d.Status.Pending; {
	case d.Stale != "":
		return warn(NameDaemon, d.restart(), "%s", d.Stale)
	case len(pending) > 0:
		if slices.Contains(pending, "listen") {
			d.Address = "" // the restarted daemon listens on another address
		}
		return warn(NameDaemon, d.restart(), "changed settings need a restart and are not in effect: %s", strings.Join(pending, ", "))
	case d.NotCompared != nil:
		return warn(NameDaemon, d.restart(), "whether the daemon has the environment variables of this shell is unknown: %v", d.NotCompared)
	}
	return ok(NameDaemon, "perigee %s%s", version, d.process(", ", ""))
}

// process names the process between two texts, if it is known.
func (d Daemon) process(before, after string) string {
	if d.PID == 0 {
		return ""
	}
	return fmt.Sprintf("%sprocess %d%s", before, d.PID, after)
}
