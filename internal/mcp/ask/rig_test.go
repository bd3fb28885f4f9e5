//go:build unix

package ask

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"perigee"
	"perigee/internal/langserver/extserver"
	"perigee/internal/langserver/lsclient"
	"perigee/internal/langserver/probe"
	"perigee/internal/langserver/supervisor"
	"perigee/internal/simulator"
	"perigee/internal/simulator/standin"
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

// A rig is an agent with everything behind it: a client, a supervised stand-in process, its
// Extension Server, and a simulated cloud.
type rig struct {
	*Agent
	ls        *lsclient.Client
	sup       *supervisor.Supervisor
	cloud     *httptest.Server
	workspace string
	gate      atomic.Pointer[chan struct{}] // answers of the cloud wait after the first of the tenWords until it is closed; nil means they do not
}

// hold makes answers of the cloud wait after the first of the tenWords.
func (r *rig) hold(t *testing.T) (release func()) {
	gate := make(chan struct{})
	r.gate.Store(&gate)
	release = sync.OnceFunc(func() { close(gate) })
	t.Cleanup(release)
	return release
}

// A held is an answer that waits after the piece that has the first of the tenWords. Pieces with
// thinking come before it.
type held struct {
	http.ResponseWriter
	wait  func()
	begun bool
}

func (h *held) Write(data []byte) (int, error) {
	if h.begun {
		h.wait()
	}
	h.begun = h.begun || bytes.Contains(data, []byte(`"one`))
	return h.ResponseWriter.Write(data)
}

func (h *held) Unwrap() http.ResponseWriter { return h.ResponseWriter }

func (h *held) Flush() { _ = http.NewResponseController(h.ResponseWriter).Flush() }

func newRig(t *testing.T, settings string) *rig {
	t.Helper()
	sim, err := simulator.New(simulator.Options{AnyToken: true, Admin: true})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{workspace: t.TempDir()}
	r.cloud = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if gate := r.gate.Load(); gate != nil && strings.Contains(q.URL.Path, "streamGenerateContent") {
			w = &held{ResponseWriter: w, wait: func() {
				select {
				case <-*gate:
				case <-q.Context().Done():
				}
			}}
		}
		sim.ServeHTTP(w, q)
	}))
	t.Cleanup(func() { r.cloud.Close(); _ = sim.Close() })
	token := perigee.NewSecret("token-of-another-server")
	extension := extserver.New(extserver.Options{Workspace: r.workspace, AllowEdit: true, AllowCommand: true, Started: func(e supervisor.Endpoint) {
		r.sup.SetEndpoint(e)
	}})
	if err := extension.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = extension.Close(context.Background()) })
	extension.SetToken(extserver.Token{Access: token, Expiry: time.Now().Add(time.Hour)})
	command, env := []string{os.Args[0], "simulate", "langserver"}, map[string]string{standin.Variable: settings}
	found, err := probe.Options{Command: command, Env: env}.Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	at := func(e supervisor.Endpoint) *lsclient.Client {
		return lsclient.New(lsclient.Options{Endpoint: lsclient.Fixed(lsclient.Endpoint(e))})
	}
	r.sup = supervisor.New(supervisor.Options{
		Name: "headless", Command: command, Probe: found, Home: filepath.Join(t.TempDir(), "home"), Env: env, CloudEndpoint: r.cloud.URL,
		Extension: supervisor.Extension{Port: extension.Port(), CSRF: extension.CSRF()}, StartTimeout: time.Minute, RestartPause: time.Millisecond,
		Ready: func(ctx context.Context, e supervisor.Endpoint) error { return at(e).Ready(ctx, true) },
		Exit:  func(ctx context.Context, e supervisor.Endpoint) error { return at(e).Exit(ctx) },
	})
	if found.Profile == probe.Hub {
		if err := r.sup.SetToken(token, time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.sup.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.sup.Stop(context.Background()) })
	r.ls = lsclient.New(lsclient.Options{Endpoint: func(ctx context.Context, stale bool) (lsclient.Endpoint, error) {
		wait := r.sup.Wait
		if stale {
			wait = r.sup.Recheck
		}
		e, err := wait(ctx)
		return lsclient.Endpoint(e), err
	}})
	r.Agent = NewAgent(r.ls, AgentOptions{Source: "langserver", Upstream: "desk", Workspaces: []string{r.workspace}, Track: true})
	return r
}

// must asks and wants an answer.
func (r *rig) must(t *testing.T, q Request) Answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	answer, err := r.Ask(ctx, q, nil)
	if err != nil {
		t.Fatalf("%+v: %v", q, err)
	}
	return answer
}

// fault makes the cloud fail, until it is told otherwise.
func (r *rig) fault(t *testing.T, fault string) {
	t.Helper()
	for _, call := range []struct{ method, body string }{{http.MethodDelete, ""}, {http.MethodPost, fmt.Sprintf(`{"do":%q,"when":{"method":"streamGenerateContent"}}`, fault)}} {
		if call.body != "" && fault == "" {
			return
		}
		req, err := http.NewRequestWithContext(t.Context(), call.method, r.cloud.URL+"/simulator/faults", strings.NewReader(call.body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := r.cloud.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode >= 300 {
			t.Fatalf("%s: %s", fault, resp.Status)
		}
	}
}
