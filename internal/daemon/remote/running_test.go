//go:build linux

package remote

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"perigee"
	"perigee/internal/store/datadir"
	"perigee/internal/testing/perigeetest/await"
)

// A test process that has the variable plays a daemon of a data directory.
const played = "PERIGEE_TEST_RUNNING"

func TestMain(m *testing.M) {
	if how, dir, ok := strings.Cut(os.Getenv(played), " "); ok {
		play(how, dir)
		return
	}
	os.Exit(m.Run())
}

// play holds the lock and listens at the socket of a directory until a signal ends it: "ends" with
// the first one, "drains" with none, "hangs" does not answer either, "stopping" ends with its
// standard input, "mute" has no socket, "slow" says that it is stopping when it has read a byte and
// ends with its standard input, "patient" says that it waits for a minute and ends 1.5 s after the
// signal. Real time: that is more than what Stop would give it without what it says.
func play(how, dir string) {
	lock, err := datadir.Lock(context.Background(), dir)
	if err != nil {
		panic(err)
	}
	defer func() { _ = lock.Close() }()
	got := make(chan os.Signal, 9)
	var stopping atomic.Bool
	stopping.Store(how == "stopping")
	signal.Notify(got, syscall.SIGTERM)
	if how != "mute" {
		l, err := datadir.ListenSocket(filepath.Join(dir, datadir.SocketName))
		if err != nil {
			panic(err)
		}
		if how != "hangs" {
			go http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				status := perigee.DaemonStatus{Stopping: stopping.Load()}
				if how == "patient" {
					status.ShutdownDelayMS, status.DrainMS = 1000, 59_000
				}
				_ = json.NewEncoder(w).Encode(status)
				if how == "stopping" {
					_ = http.NewResponseController(w).Flush()
					fmt.Println("asked")
				}
			}))
		}
	}
	fmt.Println("ready")
	switch how {
	case "ends", "mute":
		for range got {
			return // the test kills a process that gets no signal
		}
	case "stopping":
		_, _ = bufio.NewReader(os.Stdin).ReadByte()
		select {
		case <-got:
			fmt.Println("a signal came")
		default:
			fmt.Println("no signal came")
		}
	case "slow":
		for range got {
			fmt.Println("a signal came")
			in := bufio.NewReader(os.Stdin)
			_, _ = in.ReadByte()
			stopping.Store(true)
			_, _ = in.ReadByte()
			fmt.Println("further signals:", len(got))
			return
		}
	case "patient":
		for range got {
			time.Sleep(1500 * time.Millisecond)
			fmt.Println("drained")
			return
		}
	default:
		select {}
	}
}

// A daemonRig is a process that plays a daemon.
type daemonRig struct {
	dir   string
	cmd   *exec.Cmd
	out   *bufio.Reader
	input io.WriteCloser
	said  []string
}

func newDaemonRig(t *testing.T, how string, shell bool) *daemonRig {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "running") // short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	r := &daemonRig{dir: dir, cmd: exec.CommandContext(t.Context(), os.Args[0])}
	if shell { // as systemd starts a service
		r.cmd = exec.CommandContext(t.Context(), "sh", "-c", `SYSTEMD_EXEC_PID=$$ exec "$0"`, os.Args[0])
	}
	r.cmd.Env = append(os.Environ(), played+"="+how+" "+dir)
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := r.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	r.out, r.input = bufio.NewReader(out), in
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.cmd.Process.Kill(); _ = await.Result(t, r.cmd.Wait, "the end of the daemon") })
	if line := r.line(t); line != "ready" {
		t.Fatalf("the daemon says %q", line)
	}
	return r
}

func (r *daemonRig) line(t *testing.T) string {
	t.Helper()
	return await.Result(t, func() string { line, _ := r.out.ReadString('\n'); return strings.TrimSpace(line) }, "a line of the daemon")
}

// find returns the daemon, which is the process of the rig.
func (r *daemonRig) find(t *testing.T) *Daemon {
	t.Helper()
	d, err := Find(t.Context(), r.dir)
	if err != nil || d == nil || d.PID != r.cmd.Process.Pid {
		t.Fatalf("found %+v, %v, want process %d", d, err, r.cmd.Process.Pid)
	}
	t.Cleanup(d.Close)
	return d
}

// stop stops the daemon with limits that only a daemon that does not do what is expected of it
// reaches.
func (r *daemonRig) stop(t *testing.T, opts StopOptions) error {
	t.Helper()
	opts.Report = func(format string, args ...any) { r.said = append(r.said, fmt.Sprintf(format, args...)) }
	return r.find(t).Stop(t.Context(), opts)
}

func (r *daemonRig) wants(t *testing.T, parts ...string) {
	t.Helper()
	text := strings.Join(r.said, "\n")
	if len(parts) != len(r.said) {
		t.Errorf("said %q, want %d messages", text, len(parts))
	}
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("said %q, want %q in it", text, part)
		}
	}
	if held, err := datadir.Locked(t.Context(), r.dir); held || err != nil {
		t.Errorf("the lock is held: %v, %v", held, err)
	}
}

func TestStopWaitsForTheEnd(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"ends", "mute"} {
		r := newDaemonRig(t, how, false)
		if err := r.stop(t, StopOptions{Drain: await.Limit, Answer: await.Limit}); err != nil {
			t.Errorf("%s: %v", how, err)
		}
		r.wants(t)
	}
}

// Real time: the process that is stopped has no other clock.
func TestADaemonThatDoesNotEndIsKilled(t *testing.T) {
	t.Parallel()
	r := newDaemonRig(t, "drains", false)
	if err := r.stop(t, StopOptions{Drain: time.Millisecond, Last: time.Second, Answer: await.Limit}); err != nil {
		t.Error(err)
	}
	r.wants(t, "did not end within 1.001s", fmt.Sprintf("killing process %d; calls that were open are cut off", r.cmd.Process.Pid))
}

// The daemon may have been started with other limits than those of the shell that stops it.
func TestADaemonHasTheTimeThatItSays(t *testing.T) {
	t.Parallel()
	r := newDaemonRig(t, "patient", false)
	if err := r.stop(t, StopOptions{Drain: time.Millisecond, Last: time.Millisecond, Answer: await.Limit}); err != nil {
		t.Error(err)
	}
	if line := r.line(t); line != "drained" {
		t.Errorf("the daemon says %q", line)
	}
	r.wants(t)
}

// Real time: the process that is stopped has no other clock.
func TestADaemonThatHangsIsKilled(t *testing.T) {
	t.Parallel()
	r := newDaemonRig(t, "hangs", false)
	if err := r.stop(t, StopOptions{Drain: await.Limit, Answer: 10 * time.Millisecond}); err != nil {
		t.Error(err)
	}
	r.wants(t, fmt.Sprintf("the daemon (process %d) does not answer within 10ms", r.cmd.Process.Pid), "killing process")
}

// A second signal would cut off the calls that the first one let finish.
func TestADaemonThatStopsAlreadyIsOnlyWaitedFor(t *testing.T) {
	t.Parallel()
	r := newDaemonRig(t, "stopping", false)
	done := make(chan error, 1)
	d := r.find(t)
	go func() { done <- d.Stop(t.Context(), StopOptions{Drain: await.Limit, Answer: await.Limit}) }()
	if line := r.line(t); line != "asked" {
		t.Error(line)
	}
	_ = r.input.Close()
	if err := await.Receive(t, done, "the end of Stop"); err != nil {
		t.Error(err)
	}
	if line := r.line(t); line != "no signal came" {
		t.Error(line)
	}
}

// Only one of several commands sends a signal: each waits until the one before it is done, or the
// daemon says that it is stopping.
func TestCommandsStopADaemonOneAfterTheOther(t *testing.T) {
	t.Parallel()
	r := newDaemonRig(t, "slow", false)
	usual := StopOptions{Drain: await.Limit, Answer: await.Limit, Report: t.Logf}
	done := make(chan error, 2)
	first, impatient, last := r.find(t), r.find(t), r.find(t)
	go func() { done <- first.Stop(t.Context(), usual) }()
	if line := r.line(t); line != "a signal came" {
		t.Fatal(line)
	}
	err := impatient.Stop(t.Context(), StopOptions{Drain: time.Millisecond, Last: time.Millisecond, Answer: time.Millisecond, Report: t.Logf})
	if err == nil || !strings.Contains(err.Error(), "another command is stopping the daemon") {
		t.Errorf("while the first command has not had an answer: %v", err)
	}
	if _, err := r.input.Write([]byte{1}); err != nil {
		t.Fatal(err)
	}
	go func() { done <- last.Stop(t.Context(), usual) }()
	await.Until(t, "the lock is free while the daemon is stopping", func() bool {
		unlock, err := datadir.LockStop(t.Context(), r.dir, time.Millisecond)
		if err == nil {
			unlock()
		}
		return err == nil
	})
	_ = r.input.Close()
	for range 2 {
		if err := await.Receive(t, done, "the end of Stop"); err != nil {
			t.Error(err)
		}
	}
	if line := r.line(t); line != "further signals: 0" {
		t.Error(line)
	}
}

func TestAServiceOfSystemdIsNotStopped(t *testing.T) {
	t.Parallel()
	r := newDaemonRig(t, "ends", true)
	d := r.find(t)
	d.Unit.OfUser = true
	err := d.Stop(t.Context(), StopOptions{Verb: "restart"})
	if err == nil || !strings.Contains(err.Error(), "run systemctl --user restart "+d.Unit.Name) || !strings.HasSuffix(d.Unit.Name, ".service") {
		t.Errorf("got %v", err)
	}
	if held, _ := datadir.Locked(t.Context(), r.dir); !held {
		t.Error("the daemon has ended")
	}
}

// The number in the lock may be that of another program by now.
func TestAnotherProgramIsNeverFound(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if d, err := Find(t.Context(), dir); d != nil || err != nil {
		t.Errorf("without a daemon: %+v, %v", d, err)
	}
	other := exec.CommandContext(t.Context(), "sleep", "600")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Process.Kill(); _ = await.Result(t, other.Wait, "the end of the other program") })
	lock, err := datadir.Lock(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := os.WriteFile(datadir.LockPath(dir), fmt.Appendln(nil, other.Process.Pid), 0o600); err != nil {
		t.Fatal(err)
	}
	if d, err := Find(t.Context(), dir); d != nil || err == nil || !strings.Contains(err.Error(), "its process cannot be seen here") {
		t.Errorf("found %+v, %v", d, err)
	}
}
