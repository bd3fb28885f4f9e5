//go:build linux

package ide

import (
	"context"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"perigee"
	"perigee/internal/langserver/extserver"
	"perigee/internal/langserver/lsclient"
	"perigee/internal/langserver/probe"
	"perigee/internal/langserver/supervisor"
	"perigee/internal/mcp/ask"
	"perigee/internal/simulator"
	"perigee/internal/simulator/standin"
	"perigee/internal/testing/bridgetest"
	"perigee/internal/testing/perigeetest/await"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "simulate" && os.Args[2] == "langserver" { // this program is also the stand-in
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		code := standin.Main(ctx, standin.Command{Args: os.Args[3:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv})
		stop()
		os.Exit(code)
	}
	goleak.VerifyTestMain(m)
}

// A rig is a machine with windows: language servers as processes with one home, which no other test
// has, and a directory of announcements.
type rig struct {
	*Upstream
	t       *testing.T
	home    string
	bridges string
	cloud   *httptest.Server
}

func newRig(t *testing.T) *rig {
	t.Helper()
	sim, err := simulator.New(simulator.Options{AnyToken: true, Admin: true})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, home: filepath.Join(t.TempDir(), "user"), bridges: filepath.Join(t.TempDir(), "bridges"), cloud: httptest.NewServer(sim)}
	t.Cleanup(func() { r.cloud.Close(); _ = sim.Close() })
	r.Upstream = New(Options{Name: "desk", Home: r.home, Bridges: r.bridges, Concurrency: 32, limits: limits{await.Limit, await.Limit}})
	t.Cleanup(func() { _ = r.Close(context.Background()) })
	return r
}

// server starts the language server of a window.
func (r *rig) server(workspace string) *supervisor.Supervisor {
	r.t.Helper()
	return r.serverIn(r.home, workspace, "")
}

func (r *rig) serverIn(home, workspace, settings string) *supervisor.Supervisor {
	t := r.t
	t.Helper()
	var sup *supervisor.Supervisor
	extension := extserver.New(extserver.Options{Workspace: workspace, AllowEdit: true, AllowCommand: true, Started: func(e supervisor.Endpoint) {
		sup.SetEndpoint(e)
	}})
	if err := extension.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = extension.Close(context.Background()) })
	extension.SetToken(extserver.Token{Access: perigee.NewSecret("token-of-the-window"), Expiry: time.Now().Add(time.Hour)})
	command, env := []string{os.Args[0], "simulate", "langserver"}, map[string]string{standin.Variable: settings}
	found, err := probe.Options{Command: command, Env: env}.Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	at := func(e supervisor.Endpoint) *lsclient.Client {
		return lsclient.New(lsclient.Options{Endpoint: lsclient.Fixed(lsclient.Endpoint(e))})
	}
	sup = supervisor.New(supervisor.Options{
		Name: "window", Command: command, Probe: found, Home: home, Workspace: workspace, Env: env, CloudEndpoint: r.cloud.URL,
		Extension: supervisor.Extension{Port: extension.Port(), CSRF: extension.CSRF()}, StartTimeout: time.Minute, RestartPause: time.Millisecond,
		Ready: func(ctx context.Context, e supervisor.Endpoint) error { return at(e).Ready(ctx, true) },
		Exit:  func(ctx context.Context, e supervisor.Endpoint) error { return at(e).Exit(ctx) },
	})
	if err := sup.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sup.Stop(context.Background()) })
	if _, err := sup.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	return sup
}

// window starts the extension of a window, which knows a language server; nil means none.
func (r *rig) window(o bridgetest.Options, sup *supervisor.Supervisor) *bridgetest.Window {
	r.t.Helper()
	o.Dir = r.bridges
	if sup != nil {
		e := r.endpoint(sup)
		o.LanguageServerPort, o.CSRFToken = e.HTTP, e.CSRF.Reveal()
	}
	return bridgetest.Start(r.t, o)
}

func (r *rig) endpoint(sup *supervisor.Supervisor) lsclient.Endpoint {
	r.t.Helper()
	e, err := sup.Wait(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return lsclient.Endpoint(e)
}

// must asks and wants an answer with a status.
func (r *rig) must(status ask.Status, q ask.Request) ask.Answer {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 2*time.Minute)
	defer cancel()
	answer, err := r.Ask(ctx, q, nil)
	if err != nil || answer.Status != status || answer.Source != "ide" {
		r.t.Fatalf("%+v: %+v, %v", q, answer, err)
	}
	return answer
}

// fails asks and wants an error of a class.
func (r *rig) fails(class perigee.Class, q ask.Request) error {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 2*time.Minute)
	defer cancel()
	answer, err := r.Ask(ctx, q, nil)
	if err == nil || perigee.AsError(err).Class != class {
		r.t.Fatalf("%+v: %+v, %v; want an error of class %s", q, answer, err, class)
	}
	return err
}

// unasked is the Ask of a window that must not be asked.
func unasked(t *testing.T) func(context.Context, *bridgetest.Ask) (bridgetest.Result, *bridgetest.Error) {
	return func(_ context.Context, a *bridgetest.Ask) (bridgetest.Result, *bridgetest.Error) {
		t.Errorf("the extension was asked: %q", a.Prompt)
		return bridgetest.Result{}, &bridgetest.Error{Code: -32002, Message: "no"}
	}
}
