//go:build linux

package main

import (
	"bufio"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"perigee/internal/testing/perigeetest/await"
)

// A manager is a process that starts perigee as systemd does: it holds the listening socket and
// reads messages.
type manager struct {
	t        *testing.T
	dir      string
	listener *net.TCPListener
	messages chan string
	notify   string
}

// newManager listens on an address, and for messages on a socket with a path or an abstract one.
func newManager(t *testing.T, listen string, abstract bool, config string) *manager {
	t.Helper()
	dir, err := os.MkdirTemp("", "perigee") // short, for sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	m := &manager{t: t, dir: dir, notify: filepath.Join(dir, "notify"), messages: make(chan string, 10_000)}
	if abstract {
		m.notify = "@perigee-test-" + rand.Text()
	}
	m.configure(config)
	l, err := net.Listen("tcp", listen)
	if err != nil {
		t.Fatal(err)
	}
	m.listener = l.(*net.TCPListener)
	heard, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: m.notify, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = l.Close(), heard.Close() })
	go func() {
		for message := make([]byte, 4096); ; {
			n, err := heard.Read(message)
			if err != nil {
				return
			}
			m.messages <- string(message[:n])
		}
	}()
	return m
}

func (m *manager) configure(text string) {
	m.t.Helper()
	if err := os.WriteFile(filepath.Join(m.dir, "config.yaml"), []byte(text), 0o600); err != nil {
		m.t.Fatal(err)
	}
}

// hear waits for a message that has all of the words, and returns those that came before it, too.
func (m *manager) hear(words ...string) (all string) {
	m.t.Helper()
	for range 1000 { // the watchdog speaks ten times a second
		message := await.Receive(m.t, m.messages, fmt.Sprintf("a message with %q; there were %q", words, all))
		all += message
		found := true
		for _, word := range words {
			found = found && strings.Contains(message, word)
		}
		if found {
			return all
		}
	}
	m.t.Fatalf("no message with %q; there were %q", words, all)
	return all
}

// A unit is a perigee that a manager has started.
type unit struct {
	*exec.Cmd
	said  strings.Builder // to be read when ended is closed
	ended chan struct{}
}

// start runs perigee with a file as the descriptor 3. Only the process itself knows its number in
// time, as the shell before it does.
func (m *manager) start(passed *os.File) *unit {
	m.t.Helper()
	u := &unit{Cmd: exec.CommandContext(m.t.Context(), "sh", "-c", `LISTEN_PID=$$ exec perigee serve --config "$0"`, filepath.Join(m.dir, "config.yaml")), ended: make(chan struct{})}
	u.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + m.dir, "PERIGEE_KEYRING=off", "PERIGEE_DATA_DIR=" + filepath.Join(m.dir, "data"), "GORACE=" + os.Getenv("GORACE"),
		"LISTEN_FDS=1", "LISTEN_FDNAMES=perigee.socket", "NOTIFY_SOCKET=" + m.notify, "WATCHDOG_USEC=200000",
	}
	u.ExtraFiles = []*os.File{passed}
	stderr, err := u.StderrPipe()
	if err != nil {
		m.t.Fatal(err)
	}
	if err := u.Start(); err != nil {
		m.t.Fatal(err)
	}
	go func() {
		defer close(u.ended)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			fmt.Fprintln(&u.said, lines.Text())
		}
		_ = u.Wait()
	}()
	m.t.Cleanup(func() { await.Receive(m.t, u.ended, "the end of the killed process") })
	return u
}

// socket is the listening socket as a file to pass.
func (m *manager) socket() *os.File {
	m.t.Helper()
	f, err := m.listener.File()
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { _ = f.Close() })
	return f
}

func (u *unit) stop(t *testing.T) {
	t.Helper()
	if err := u.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	await.Receive(t, u.ended, "the end of the process after SIGTERM")
	if code := u.ProcessState.ExitCode(); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, u.said.String())
	}
}

// With the socket held by the manager, connections that are made while perigee restarts wait and
// are answered: none is refused.
func TestRestartRefusesNoConnection(t *testing.T) {
	for name, abstract := range map[string]bool{"a path": false, "an abstract socket": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newManager(t, "127.0.0.1:0", abstract, "log: info\n")
			url := "http://" + m.listener.Addr().String()
			early := make(chan error, 1) // before there is any process to answer
			go func() { early <- get(url + "/health") }()
			u := m.start(m.socket())
			m.hear("READY=1\n", "STATUS=listening on "+url)
			if err := await.Receive(t, early, "the early answer"); err != nil {
				t.Errorf("a connection before the start: %v", err)
			}
			m.hear("WATCHDOG=1\n")
			m.hear("WATCHDOG=1\n")
			m.configure("log: warn\n")
			m.hear("RELOADING=1\nMONOTONIC_USEC=")
			m.hear("READY=1\n")
			// SIGHUP of a manager is a reload, and not the end of a terminal.
			if err := u.Process.Signal(syscall.SIGHUP); err != nil {
				t.Fatal(err)
			}
			m.hear("RELOADING=1\nMONOTONIC_USEC=")
			m.hear("READY=1\n", "STATUS=changes of the configuration are applied within seconds")
			if err := get(url + "/health"); err != nil {
				t.Errorf("after SIGHUP: %v", err)
			}

			var calls, failed atomic.Int64
			var clients sync.WaitGroup
			stop := make(chan struct{})
			for range 4 {
				clients.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
						}
						calls.Add(1)
						if err := get(url + "/v1/models"); err != nil {
							failed.Add(1)
							t.Errorf("while restarting: %v", err)
						}
					}
				})
			}
			for range 3 {
				before := calls.Load()
				u.stop(t)
				m.hear("STOPPING=1\n")
				u = m.start(m.socket())
				m.hear("READY=1\n")
				await.Until(t, "20 more calls", func() bool { return calls.Load() >= before+20 || failed.Load() > 0 })
			}
			close(stop)
			await.Return(t, clients.Wait, "the clients")
			t.Logf("%d calls on new connections during 3 restarts, %d failed", calls.Load(), failed.Load())
			u.stop(t)
		})
	}
}

// get makes a request on a connection of its own.
func get(url string) error {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: await.Limit}
	resp, err := client.Get(url)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	_, err = io.Copy(io.Discard, resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %s", resp.Status)
	}
	return err
}

func TestSocketsThatCannotBeServed(t *testing.T) {
	t.Parallel()
	connected, other, err := socketPair()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = connected.Close(), other.Close() }()
	file, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	local, everywhere := newManager(t, "127.0.0.1:0", false, "log: info\n"), newManager(t, "0.0.0.0:0", false, "log: info\n")
	for _, c := range []struct {
		m      *manager
		passed *os.File
		want   string
	}{
		{local, file, "file descriptor 3 (perigee.socket) is not a socket"},
		{local, connected, "use ListenStream= and Accept=no in the socket unit"},
		{everywhere, everywhere.socket(), "can be reached from other machines, and there is no key"},
	} {
		u := c.m.start(c.passed)
		await.Receive(t, u.ended, "the end of a process that says "+c.want)
		if u.ProcessState.ExitCode() == 0 || !strings.Contains(u.said.String(), c.want) {
			t.Errorf("exit code %d, want %s:\n%s", u.ProcessState.ExitCode(), c.want, u.said.String())
		}
	}
	everywhere.configure("keys: [{name: a, secret: a-secret-that-is-long-enough}]\n")
	u := everywhere.start(everywhere.socket())
	everywhere.hear("READY=1\n")
	u.stop(t)
	if !strings.Contains(u.said.String(), "sent there unencrypted") {
		t.Errorf("no warning:\n%s", u.said.String())
	}
}

func socketPair() (a, b *os.File, err error) {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return nil, nil, err
	}
	return os.NewFile(uintptr(pair[0]), "a"), os.NewFile(uintptr(pair[1]), "b"), nil
}
