//go:build unix

package supervisor

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"perigee/internal/langserver/extserver"
	"perigee/internal/langserver/lsclient"
	"perigee/internal/langserver/probe"
	"perigee/internal/simulator/standin"
	"perigee/internal/testing/perigeetest/await"
)

// runStandIn is the test program as "perigee simulate langserver".
func runStandIn(args []string) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := standin.Main(ctx, standin.Command{Args: args, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv})
	stop()
	os.Exit(code)
}

// newStandIn supervises a stand-in with an Extension Server.
func newStandIn(t *testing.T, settings string, change func(*Options)) *rig {
	t.Helper()
	command := []string{os.Args[0], "simulate", "langserver"}
	env := map[string]string{mark: os.Getenv(mark), standin.Variable: settings}
	found, err := probe.Options{Command: command, Env: env}.Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	r := &rig{notes: filepath.Join(dir, "notes"), log: &logBuffer{}}
	extension := extserver.New(extserver.Options{Started: func(e Endpoint) {
		r.SetEndpoint(e)
	}})
	if err := extension.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = extension.Close(context.Background()) })
	client := func(e Endpoint) *lsclient.Client {
		return lsclient.New(lsclient.Options{Endpoint: lsclient.Fixed(lsclient.Endpoint(e))})
	}
	o := Options{
		Name: "headless", Command: command, Probe: found, Home: filepath.Join(dir, "home"), Env: env,
		Extension:    Extension{Port: extension.Port(), CSRF: extension.CSRF()},
		StartTimeout: patience,
		RestartPause: time.Millisecond,
		Ready:        func(ctx context.Context, e Endpoint) error { return client(e).Heartbeat(ctx) },
		Heartbeat:    func(ctx context.Context, e Endpoint) error { return client(e).Heartbeat(ctx) },
		Exit:         func(ctx context.Context, e Endpoint) error { return client(e).Exit(ctx) },
		Logger:       debugLog(r.log),
	}
	if change != nil {
		change(&o)
	}
	r.run(t, o)
	return r
}

func TestStandInOfEachGeneration(t *testing.T) {
	t.Parallel()
	for generation, profile := range map[string]string{"classic": probe.Classic, "classic2": probe.Classic, "hub": probe.Hub, "hub2": probe.Classic} {
		t.Run(generation, func(t *testing.T) {
			t.Parallel()
			r := newStandIn(t, "generation="+generation, func(o *Options) { o.Workspace = t.TempDir() })
			e := r.ready(t)
			status := r.Status()
			if status.Profile != profile || status.Version != "" || e.HTTP == 0 || e.HTTPS == 0 {
				t.Errorf("got %+v, %+v", e, status)
			}
			if got := r.log.String(); !strings.Contains(got, "language server version unknown") || !strings.Contains(got, "version: 1.20.5") {
				t.Errorf("a changelist counts as version: %s", got)
			}
			if strings.Contains(r.log.String(), e.CSRF.Reveal()) {
				t.Error("the log has the token")
			}
			if err := r.Stop(t.Context()); err != nil || r.Status().LastExit != "stopped (exit status 0)" {
				t.Errorf("got %v, %q", err, r.Status().LastExit)
			}
		})
	}
}

func TestStandInWithFaults(t *testing.T) {
	t.Parallel()
	for fault, check := range map[string]func(*testing.T, *rig){
		"crash-at-start:1": func(t *testing.T, r *rig) {
			r.ready(t)
			if status := r.Status(); status.Restarts != 1 || !strings.Contains(status.LastExit, "exit status 2: panic: runtime error") {
				t.Errorf("got %+v", status)
			}
		},
		"crash-after:50ms": func(t *testing.T, r *rig) {
			await.Until(t, "a crash", func() bool { return strings.Contains(r.Status().LastExit, "panic: runtime error") })
		},
		"wrong-port":   func(t *testing.T, r *rig) { r.ready(t) },
		"big-stderr:2": func(t *testing.T, r *rig) { r.ready(t) },
		"leave-child": func(t *testing.T, r *rig) {
			r.ready(t)
			_ = syscall.Kill(r.Status().PID, syscall.SIGKILL)
			await.Until(t, "a restart", func() bool { s := r.Status(); return s.Restarts == 1 && s.State == Ready })
		},
		"never-ready:1": func(t *testing.T, r *rig) {
			await.Until(t, "the first end", func() bool { return r.Status().LastExit != "" })
			if got := r.Status().LastExit; !strings.Contains(got, "was not ready within") {
				t.Errorf("got %q", got)
			}
		},
		"hang-at-start": func(t *testing.T, r *rig) {
			await.Until(t, "the first end", func() bool { return r.Status().LastExit != "" })
			if got := r.Status().LastExit; !strings.Contains(got, "it reported no port") {
				t.Errorf("got %q", got)
			}
		},
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			r := newStandIn(t, "fault="+fault, func(o *Options) {
				if strings.HasPrefix(fault, "never-") || strings.HasPrefix(fault, "hang-") {
					o.StartTimeout = 50 * time.Millisecond
				}
			})
			check(t, r)
		})
	}
}

func TestStandInThatIgnoresItsEnd(t *testing.T) {
	t.Parallel()
	r := newStandIn(t, "fault=ignore-exit,ignore-lifeline,leave-child", nil)
	r.ready(t)
	pid := r.Status().PID
	if err := r.Stop(t.Context()); err != nil || r.Status().LastExit != "stopped (signal: killed)" || groupAlive(pid) {
		t.Errorf("got %v, %q", err, r.Status().LastExit)
	}
}

func TestStandInWithUnknownArguments(t *testing.T) {
	t.Parallel()
	r := newStandIn(t, "", func(o *Options) { o.Args = []string{"--no_such_flag"} })
	await.Until(t, "the first end", func() bool { return r.Status().LastExit != "" })
	if got := r.Status().LastExit; got != "exit status 2: flag provided but not defined: -no_such_flag" {
		t.Errorf("got %q", got)
	}
	if got := Advice(r.Status().LastExit); !strings.Contains(got, "check args") {
		t.Errorf("got %q", got)
	}
}
