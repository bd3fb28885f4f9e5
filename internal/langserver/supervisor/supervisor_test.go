//go:build unix

package supervisor

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"perigee"
	"perigee/internal/testing/perigeetest"
	"perigee/internal/testing/perigeetest/await"
)

func TestStartsAndStops(t *testing.T) {
	t.Parallel()
	r := newRig(t, "ok", func(o *Options) {
		o.Workspace = t.TempDir()
		o.Args = []string{"--enable_lsp=false"}
		o.Variables = map[string]string{"HTTPS_PROXY": "http://127.0.0.1:9", "NO_PROXY": "example.org"}
	})
	e := r.ready(t)
	status := r.Status()
	if status.State != Ready || status.PID == 0 || status.HTTPPort != e.HTTP || status.Upstream != "headless" ||
		status.Version != "1.21.6" || status.Profile != "classic" || status.Restarts != 0 || status.LastExit != "" {
		t.Errorf("got %+v", status)
	}
	if runtime.GOOS == "linux" && status.Memory < 1<<20 {
		t.Errorf("memory %d", status.Memory)
	}
	ran := runs(t, r.notes)
	if len(ran) != 1 || ran[0].PID != status.PID {
		t.Fatalf("ran %+v", ran)
	}
	if ran[0].Mode != "-rw-------" {
		t.Errorf("the process makes files with mode %s", ran[0].Mode)
	}
	if want := "0a0b616e7469677261766974793a06312e32312e36620b616e746967726176697479"; ran[0].Input != want {
		t.Errorf("metadata %s, want %s", ran[0].Input, want)
	}
	if dir, _ := filepath.EvalSymlinks(r.o.Workspace); ran[0].Dir != dir && ran[0].Dir != r.o.Workspace {
		t.Errorf("works in %s", ran[0].Dir)
	}
	checkEnvironment(t, r, ran[0].Env)
	line := strings.Join(ran[0].Args, " ")
	for _, want := range []string{
		"--enable_lsp --csrf_token " + e.CSRF.Reveal() + " --extension_server_port 4711 --extension_server_csrf_token extension-token " +
			"--random_port --workspace_id file_",
		" --cloud_code_endpoint http://127.0.0.1:50999 --app_data_dir perigee --parent_pipe_path ",
		" --enable_lsp=false",
	} {
		if !strings.Contains(line, want) {
			t.Errorf("the command line %q lacks %q", line, want)
		}
	}

	if err := r.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	status = r.Status()
	if status.State != Stopped || status.PID != 0 || status.HTTPPort != 0 || status.Memory != 0 || status.LastExit != "stopped (exit status 0)" {
		t.Errorf("got %+v", status)
	}
	if _, err := r.Wait(t.Context()); perigee.AsError(err).Class != perigee.ClassUnavailable || !strings.Contains(err.Error(), "is stopped") {
		t.Errorf("got %v", err)
	}
	if left, _ := os.ReadDir(filepath.Join(r.o.Home, "tmp")); len(left) != 0 {
		t.Errorf("temporary files are left: %v", left)
	}
	for _, secret := range []string{e.CSRF.Reveal(), "extension-token"} {
		if strings.Contains(r.log.String(), secret) {
			t.Errorf("the log has a secret: %s", r.log)
		}
	}

	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if next := r.ready(t); next.CSRF == e.CSRF {
		t.Error("the token of the last process is used again")
	}
}

func checkEnvironment(t *testing.T, r *rig, env []string) {
	t.Helper()
	got := map[string]string{}
	for _, variable := range env {
		name, value, _ := strings.Cut(variable, "=")
		got[name] = value
	}
	want := map[string]string{"HOME": r.o.Home, "HTTPS_PROXY": "http://127.0.0.1:9", "PATH": os.Getenv("PATH")}
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s is %q", name, got[name])
		}
	}
	for _, host := range []string{"127.0.0.1", "localhost", "::1", "example.org"} {
		for _, name := range []string{"NO_PROXY", "no_proxy"} {
			if !slices.Contains(strings.Split(got[name], ","), host) {
				t.Errorf("%s is %q", name, got[name])
			}
		}
	}
	if !strings.HasPrefix(got["TMPDIR"], r.o.Home) {
		t.Errorf("TMPDIR is %q", got["TMPDIR"])
	}
	for name := range got {
		if !slices.Contains([]string{"PATH", "HOME", "LANG", "TMPDIR", "PWD", "HTTPS_PROXY", "NO_PROXY", "no_proxy", mark}, name) {
			t.Errorf("the environment has %s", name)
		}
	}
}

func TestRestartsAProcessThatWasKilled(t *testing.T) {
	t.Parallel()
	r := newRig(t, "ok", nil)
	before, pid := r.ready(t), r.Status().PID
	_ = syscall.Kill(pid, syscall.SIGKILL)
	await.Until(t, "another process", func() bool { s := r.Status(); return s.State == Ready && s.PID != pid })
	status := r.Status()
	if status.Restarts != 1 || status.LastExit != "signal: killed" {
		t.Errorf("got %+v", status)
	}
	if after := r.ready(t); after == before {
		t.Error("the endpoint is the same")
	}
}

func TestNamesTheCrash(t *testing.T) {
	t.Parallel()
	r := newRig(t, "ok", nil)
	e := r.ready(t)
	_ = ask(t.Context(), e, "/crash")
	await.Until(t, "a restart", func() bool { return r.Status().LastExit != "" })
	if got := r.Status().LastExit; got != "exit status 7: fatal error: all is lost" {
		t.Errorf("got %q", got)
	}
	// The caller whose connection broke waits for the next process.
	if next, err := r.Recheck(t.Context()); err != nil || next == e {
		t.Errorf("got %+v, %v", next, err)
	}
}

func TestFailsAfterThreeRestarts(t *testing.T) {
	t.Parallel()
	r := newRig(t, "dies", func(o *Options) { o.Now = new(perigeetest.Clock).Now })
	_, err := r.Wait(t.Context())
	failure := perigee.AsError(err)
	if failure == nil || failure.Class != perigee.ClassUnavailable || failure.Retry != time.Minute ||
		failure.Upstream != "headless" || failure.Hint == "" ||
		!strings.Contains(failure.Message, "exit status 1: panic: token [redacted] is no good") {
		t.Errorf("got %#v", failure)
	}
	if status := r.Status(); status.State != Failed || status.PID != 0 || status.Restarts != 3 {
		t.Errorf("got %+v", status)
	}
	if _, err := r.Wait(t.Context()); err == nil {
		t.Error("no error at once")
	}
	if ran := runs(t, r.notes); len(ran) != 4 {
		t.Errorf("executed %d times", len(ran))
	}
}

func TestEndsAProcessThatIsNeverReady(t *testing.T) {
	t.Parallel()
	// A busy machine may not get to the first answer of the second one.
	for behaviour, want := range map[string]string{"silent": "it reported no port", "unready": ""} {
		t.Run(behaviour, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, behaviour, func(o *Options) {
				o.StartTimeout = 50 * time.Millisecond
				o.RestartPause = time.Hour
			})
			await.Until(t, "the first end", func() bool { return r.Status().LastExit != "" })
			if got := r.Status().LastExit; !strings.HasPrefix(got, "it was not ready within 50ms: "+want) {
				t.Errorf("got %q", got)
			}
			if state := r.State(); state != Restarting {
				t.Errorf("state %s", state)
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if _, err := r.Wait(ctx); err == nil || strings.Count(err.Error(), "was not ready within") != 1 {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestKillsWhatIgnoresExitAndSIGTERM(t *testing.T) {
	t.Parallel()
	r := newRig(t, "stubborn children", func(o *Options) {
		o.delays = delays{exit: time.Millisecond, term: patience}
		o.Exit = func(_ context.Context, e Endpoint) error { return ask(context.Background(), e, "/exit") }
	})
	r.ready(t)
	pid := r.Status().PID
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- r.Stop(ctx) }()
	await.Until(t, "SIGTERM", func() bool { return slices.Equal(endings(r.notes), []string{"exit", "SIGTERM"}) })
	if !groupAlive(pid) {
		t.Error("killed before its time")
	}
	cancel()
	if err := await.Receive(t, stopped, "the end"); err != nil {
		t.Fatal(err)
	}
	if got := r.Status().LastExit; got != "stopped (signal: killed)" {
		t.Errorf("got %q", got)
	}
	if groupAlive(pid) {
		t.Error("the group is left")
	}
}

func TestStopDoesNotWaitLongerThanItsContext(t *testing.T) {
	t.Parallel()
	r := newRig(t, "stubborn", func(o *Options) { o.delays = delays{exit: time.Hour, term: time.Hour} })
	r.ready(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Stop(ctx); err != nil || r.Status().LastExit != "stopped (signal: killed)" {
		t.Errorf("got %v, %q", err, r.Status().LastExit)
	}
}

func TestFindsPortsInMuchOutput(t *testing.T) {
	t.Parallel()
	r := newRig(t, "flood", func(o *Options) { o.Logger = nil })
	if e := r.ready(t); !e.Known() {
		t.Error("no port")
	}
}

func TestRestartsForMemoryBetweenCalls(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("memory is measured by /proc")
	}
	t.Parallel()
	busy := newFlag(true)
	r := newRig(t, "ok", func(o *Options) { o.Memory, o.Busy = 150<<20, busy.get })
	e, pid := r.ready(t), r.Status().PID
	r.CallEnded()
	if err := ask(t.Context(), e, "/eat"); err != nil {
		t.Fatal(err)
	}
	r.CallEnded()
	await.Until(t, "the finding", func() bool { return strings.Contains(r.log.String(), "uses too much memory") })
	if status := r.Status(); status.PID != pid || status.State != Ready {
		t.Errorf("restarted while a call was running: %+v", status)
	}
	busy.set(false)
	r.CallEnded()
	await.Until(t, "a restart", func() bool { s := r.Status(); return s.State == Ready && s.PID != pid })
	if status := r.Status(); !strings.HasPrefix(status.LastExit, "restarted: it used ") || status.Memory > 150<<20 {
		t.Errorf("got %+v", status)
	}
}

func TestRestartByCommand(t *testing.T) {
	t.Parallel()
	r := newRig(t, "ok", nil)
	r.ready(t)
	for range 5 { // more than failures could be
		pid := r.Status().PID
		r.Restart("the account has changed")
		await.Until(t, "a restart", func() bool { s := r.Status(); return s.State == Ready && s.PID != pid })
	}
	if got := r.Status(); got.Restarts != 5 || got.LastExit != "restarted: the account has changed (exit status 0)" {
		t.Errorf("got %+v", got)
	}
}

func TestNothingIsLeftWhenTheSupervisorIsKilled(t *testing.T) {
	t.Parallel()
	behaviours := []string{"ok"}
	if runtime.GOOS == "linux" {
		behaviours = append(behaviours, "stubborn") // it ignores the life line as well
	}
	for _, behaviour := range behaviours {
		pid := killedSupervisor(t, behaviour, t.TempDir())
		await.Until(t, "the end of "+behaviour, func() bool { return !groupAlive(pid) })
	}
}

func TestHubGetsItsTokenAndALifeLine(t *testing.T) {
	t.Parallel()
	r := newRig(t, "ok lifeline", func(o *Options) {
		o.Probe.Profile = "hub"
		o.Probe.Flags = []string{"app_data_dir", "csrf_token", "exit_on_stdin_close", "https_server_port", "override_ide_version", "standalone"}
	})
	r.ready(t)
	line := strings.Join(runs(t, r.notes)[0].Args, " ")
	if want := "--standalone --override_ide_version 1.21.6 --https_server_port 0 --csrf_token "; !strings.HasPrefix(line, want) ||
		!strings.HasSuffix(line, " --app_data_dir perigee --exit_on_stdin_close") {
		t.Errorf("got %q", line)
	}
	expiry := time.Date(2026, 11, 16, 12, 0, 0, 0, time.FixedZone("", 3600))
	if err := r.SetToken(perigee.NewSecret("ya29.token"), expiry); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(r.o.Home, ".gemini", "jetski-standalone-oauth-token")
	text, err := os.ReadFile(path)
	if err != nil || string(text) != `{"token":{"access_token":"ya29.token","token_type":"Bearer","expiry":"2026-11-16T11:00:00Z"}}` {
		t.Errorf("got %s, %v", text, err)
	}
	if info, _ := os.Stat(path); info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	for range 2 {
		if err := r.SetToken(perigee.Secret{}, time.Time{}); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("got %v", err)
	}
}

func TestStatusIsTheDocumentedJSON(t *testing.T) {
	text, _ := json.Marshal(Status{Upstream: "n", State: Stopped, Since: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)})
	want := `{"upstream":"n","state":"stopped","pid":0,"http_port":0,"https_port":0,"version":"","profile":"","account":"",` +
		`"restarts":0,"since":"2026-01-02T03:04:05Z","last_exit":"","memory":0}`
	if string(text) != want {
		t.Errorf("got %s", text)
	}
}
