package daemon

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// A SystemdService has the settings that the service manager has passed to this process. A nil
// SystemdService has no manager.
type SystemdService struct {
	// Listeners are the sockets that the manager has opened, in the order of its configuration.
	Listeners []net.Listener

	notify   string        // the manager's socket; empty if it expects no messages
	watchdog time.Duration // after how long without a message the manager acts; 0 if never
}

var variables = []string{
	"LISTEN_PID", "LISTEN_PIDFDID", "LISTEN_FDS", "LISTEN_FDNAMES", "NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC",
}

// TakeSystemd reads the variables of the protocols and removes them, so that no child process takes
// them for its own. Call it once.
func TakeSystemd() (*SystemdService, error) {
	env := make(map[string]string)
	for _, name := range variables {
		env[name] = os.Getenv(name)
		_ = os.Unsetenv(name)
	}
	s := &SystemdService{notify: env["NOTIFY_SOCKET"]}
	if pid := env["WATCHDOG_PID"]; pid == "" || isOwn(pid) {
		if usec, err := strconv.ParseInt(env["WATCHDOG_USEC"], 10, 64); err == nil && usec > 0 {
			s.watchdog = time.Duration(usec) * time.Microsecond
		}
	}
	if env["LISTEN_FDS"] == "" || !isOwn(env["LISTEN_PID"]) {
		return s, nil
	}
	count, err := strconv.Atoi(env["LISTEN_FDS"])
	if err != nil || count < 0 || count > maxSockets {
		return nil, fmt.Errorf("LISTEN_FDS is %q, which is not a number of sockets", env["LISTEN_FDS"])
	}
	names := strings.Split(env["LISTEN_FDNAMES"], ":")
	for i := range count {
		name := "socket"
		if i < len(names) && names[i] != "" {
			name = names[i]
		}
		l, err := inherit(firstSocket+i, name)
		if err != nil {
			return nil, err
		}
		s.Listeners = append(s.Listeners, l)
	}
	return s, nil
}

const (
	firstSocket = 3 // the file descriptor after stdin, stdout and stderr
	maxSockets  = 64
)

func isOwn(pid string) bool { return pid == strconv.Itoa(os.Getpid()) }

// Notify sends assignments such as "READY=1" to the manager, all in one message.
func (s *SystemdService) Notify(assignments ...string) error {
	if s == nil || s.notify == "" {
		return nil
	}
	if !strings.HasPrefix(s.notify, "/") && !strings.HasPrefix(s.notify, "@") {
		return fmt.Errorf("NOTIFY_SOCKET is %q, which is neither a path nor an abstract socket", s.notify)
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: s.notify, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	// A manager that does not read must not stop the service.
	_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
	_, err = conn.Write([]byte(strings.Join(assignments, "\n") + "\n"))
	return err
}

// Ready notifies the manager that the service has started, or that a reload is over.
func (s *SystemdService) Ready(status string) error {
	return s.Notify("READY=1", "STATUS="+oneLine(status))
}

// Reloading notifies the manager that a reload has begun. Ready ends it.
func (s *SystemdService) Reloading() error {
	now := strconv.FormatInt(monotonic().Microseconds(), 10)
	return s.Notify("RELOADING=1", "MONOTONIC_USEC="+now, "STATUS=reloading the configuration")
}

// Managed reports whether a service manager has started this process and expects messages.
func (s *SystemdService) Managed() bool { return s != nil && s.notify != "" }

// Stopping notifies the manager that the service is about to end.
func (s *SystemdService) Stopping(status string) error {
	return s.Notify("STOPPING=1", "STATUS="+oneLine(status))
}

// Watch notifies the manager that the process is alive, twice in the time after which it would act,
// until ctx ends.
func (s *SystemdService) Watch(ctx context.Context) {
	if s == nil || s.watchdog == 0 || s.notify == "" {
		return
	}
	ticker := time.NewTicker(max(s.watchdog/2, time.Millisecond))
	defer ticker.Stop()
	for {
		_ = s.Notify("WATCHDOG=1") // the manager acts on messages that do not come
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// oneLine keeps a text from becoming several assignments.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
