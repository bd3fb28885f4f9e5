//go:build unix

package conversation

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"perigee"
	cortexpb "perigee/gen/exa/cortex_pb"
	"perigee/internal/langserver/extserver"
	"perigee/internal/langserver/lsclient"
	"perigee/internal/langserver/probe"
	"perigee/internal/langserver/supervisor"
	"perigee/internal/simulator"
	"perigee/internal/simulator/standin"
	"perigee/internal/testing/perigeetest"
	"perigee/internal/testing/perigeetest/await"
)

// The test program is also "perigee simulate langserver".
func init() {
	if len(os.Args) > 2 && os.Args[1] == "simulate" && os.Args[2] == "langserver" {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		code := standin.Main(ctx, standin.Command{Args: os.Args[3:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv})
		stop()
		os.Exit(code)
	}
}

// standInRig is an upstream with everything behind it: a client, a supervised stand-in process, its
// Extension Server, and a simulated cloud.
type standInRig struct {
	*Upstream
	ls    *lsclient.Client
	sup   *supervisor.Supervisor
	cloud *httptest.Server
}

func newStandIn(t *testing.T, settings string) *standInRig {
	t.Helper()
	sim, err := simulator.New(simulator.Options{AnyToken: true, Admin: true})
	if err != nil {
		t.Fatal(err)
	}
	r := &standInRig{cloud: httptest.NewServer(sim)}
	t.Cleanup(func() { r.cloud.Close(); _ = sim.Close() })
	token := perigee.NewSecret("token-of-another-server")
	extension := extserver.New(extserver.Options{Started: func(e supervisor.Endpoint) {
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
	r.Upstream = New(Options{Name: "headless", Client: NewClient(r.ls, ClientOptions{}), Depth: 10, Wait: func(ctx context.Context) error {
		_, err := r.sup.Wait(ctx)
		return err
	}})
	t.Cleanup(func() { _ = r.Close(context.Background()) })
	return r
}

func (r *standInRig) ask(t *testing.T, stream bool, text string) reply {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	return ask(ctx, r, request(stream, perigee.Prompt{Contents: []perigee.Content{message(perigee.RoleUser, text)}}))
}

// fault makes the cloud fail, until it is told otherwise.
func (r *standInRig) fault(t *testing.T, fault string) {
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

// A real answer of every generation: cloud, process, client and upstream together.
func TestStandInAnswers(t *testing.T) {
	t.Parallel()
	for _, settings := range []string{"generation=classic page=2", "generation=classic2 fault=drop-streams:2", "generation=hub"} {
		t.Run(settings, func(t *testing.T) {
			t.Parallel()
			if strings.Contains(settings, "drop-streams") {
				perigeetest.Slow(t) // the stream is opened again after a second
			}
			r := newStandIn(t, settings)
			for _, stream := range []bool{true, false} {
				got := r.ask(t, stream, "[[text: Hello from the cloud, in several pieces.]] [[chunks: 5]] [[pace: 20ms]]")
				if got.err != nil || got.text != "Hello from the cloud, in several pieces." || got.finish == nil || got.finish.Reason != "STOP" || got.usage.Input == 0 || got.usage.Output == 0 {
					t.Errorf("stream %t: %+v", stream, got)
				}
			}
			models, err := r.Models(t.Context())
			if err != nil || len(models) == 0 || models[0].ID == "" || models[0].DisplayName == "" {
				t.Errorf("models %+v, %v", models, err)
			}
			named := request(true, perigee.Prompt{Contents: []perigee.Content{message(perigee.RoleUser, "[[text: by label]]")}}).WithModel("Gemini 3 Flash")
			if got := ask(t.Context(), r, named); got.text != "by label" || got.start.Model != "gemini-3-flash" {
				t.Errorf("by label: %+v", got)
			}
			// A continued chat goes on in the same conversation.
			first := message(perigee.RoleUser, "[[text: one]]")
			for _, contents := range [][]perigee.Content{{first}, {first, message(perigee.RoleModel, "one"), message(perigee.RoleUser, "[[text: two]]")}} {
				if got := ask(t.Context(), r, request(true, perigee.Prompt{Contents: contents})); got.err != nil {
					t.Error(got.err)
				}
			}
			list, err := r.ls.Conversations(t.Context())
			if err != nil || len(list) != 4 {
				t.Errorf("%d conversations, %v", len(list), err)
			}
		})
	}
}

// Errors of the cloud have their class, and those of the request theirs.
func TestStandInErrors(t *testing.T) {
	perigeetest.Slow(t)
	t.Parallel()
	r := newStandIn(t, "retries=0")
	for fault, class := range map[string]perigee.Class{
		"rate_limit": perigee.ClassRateLimited, "quota_exhausted": perigee.ClassExhausted, "capacity": perigee.ClassCapacity,
		"unavailable_503": perigee.ClassUnavailable, "error_in_200": perigee.ClassIdentity, "banned": perigee.ClassForbidden,
		"version_too_old": perigee.ClassNotFound,
	} {
		r.fault(t, fault)
		if got := r.ask(t, true, "hello"); got.err == nil || got.err.Class != class || got.err.Upstream != "headless" || strings.Contains(got.err.Hint, "client_version") {
			t.Errorf("%s: %+v, want class %s", fault, got.err, class)
		}
	}
	r.fault(t, "")
	req := hello(true)
	req.Model = "no-such-model"
	if got := ask(t.Context(), r, req); got.err == nil || got.err.Class != perigee.ClassNotFound {
		t.Errorf("an unknown model: %v", got.err)
	}
	if got := r.ask(t, true, "[[finish: MAX_TOKENS]]"); got.finish == nil || got.finish.Kind != perigee.FinishLength {
		t.Errorf("max tokens: %+v", got)
	}
	// The agent asks before it runs a command.
	got := r.ask(t, true, `[[call: run_command {"CommandLine":"ls -l","Cwd":"/"}]]`)
	if got.err != nil || !strings.Contains(got.text, "permission to run the command ls -l") {
		t.Errorf("a command: %+v", got)
	}
}

// A process that crashes is restarted, and the call is answered, or fails with the class that says
// to try again.
func TestStandInCrashes(t *testing.T) {
	perigeetest.Slow(t)
	t.Parallel()
	for _, generation := range []string{"classic", "classic2"} {
		t.Run(generation, func(t *testing.T) {
			t.Parallel()
			r := newStandIn(t, "generation="+generation+" fault=crash-on-send:1")
			if got := r.ask(t, true, "[[text: after a crash]]"); got.err != nil || got.text != "after a crash" {
				t.Errorf("%+v", got)
			}
			if _, err := r.sup.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			pid := r.sup.Status().PID
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			if got := r.ask(t, true, "[[text: after a kill]]"); got.err != nil || got.text != "after a kill" {
				t.Errorf("%+v", got)
			}
			if now := r.sup.Status().PID; now == pid {
				t.Error("it is the same process")
			}
		})
	}
	t.Run("with every message", func(t *testing.T) {
		t.Parallel()
		r := newStandIn(t, "fault=crash-on-send")
		got := r.ask(t, true, "[[text: never]]")
		if got.err == nil || got.err.Class != perigee.ClassUnavailable || strings.Contains(got.err.Error(), "run state") || !strings.Contains(got.err.Hint, "try again") {
			t.Errorf("%+v", got)
		}
	})
	t.Run("within an answer", func(t *testing.T) {
		t.Parallel()
		r := newStandIn(t, "fault=crash-mid-stream:1")
		got := r.ask(t, true, "[[text: a long answer that is cut]] [[chunks: 6]] [[pace: 200ms]]")
		if got.err == nil && got.text != "a long answer that is cut" || got.err != nil && got.err.Class != perigee.ClassUnavailable {
			t.Errorf("%+v", got)
		}
		t.Logf("%q, %v", got.text, got.err)
	})
}

// The turn of a client that leaves is canceled. It would go on for half a minute.
func TestStandInIsCanceled(t *testing.T) {
	t.Parallel()
	r := newStandIn(t, "")
	cascade := ""
	req := request(true, perigee.Prompt{Contents: []perigee.Content{message(perigee.RoleUser, "[[tokens: 200]] [[chunks: 100]] [[pace: 300ms]]")}})
	for e, err := range r.Stream(t.Context(), req) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == perigee.EventStart {
			cascade = strings.TrimSuffix(e.ResponseID, "-0")
		}
		if e.Kind == perigee.EventText || e.Kind == perigee.EventThinking {
			break
		}
	}
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	var ends []*cortexpb.ExecutorMetadata
	await.Until(t, "the end of the turn", func() bool {
		state, err := r.ls.Trajectory(t.Context(), cascade)
		if err != nil {
			t.Fatal(err)
		}
		ends = state.GetTrajectory().GetExecutorMetadatas()
		return len(ends) > 0
	})
	if reason := ends[0].GetTerminationReason(); reason != cortexpb.ExecutorTerminationReason_EXECUTOR_TERMINATION_REASON_USER_CANCELED {
		t.Errorf("ended with %v", reason)
	}
}

// A server that has just started names no models until the cloud has named them: a call waits for
// them.
func TestACallWaitsForTheModels(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		configs := ""
		if asked++; asked > 4 {
			configs = `{"label":"Gemini 3 Flash","modelOrAlias":{"model":"MODEL_PLACEHOLDER_M18"}}`
		}
		list := `{"clientModelConfigs":[` + configs + `]}`
		if strings.HasSuffix(r.URL.Path, "/GetUserStatus") {
			list = `{"userStatus":{"cascadeModelConfigData":` + list + `}}`
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(list))
	}))
	defer server.Close()
	port := server.Listener.Addr().(*net.TCPAddr).Port
	client := NewClient(lsclient.New(lsclient.Options{Endpoint: lsclient.Fixed(lsclient.Endpoint{HTTP: port})}), ClientOptions{})
	if id, err := client.ModelID(t.Context(), "gemini-3-flash"); id != "gemini-3-flash" || err != nil || asked < 5 {
		t.Errorf("%q, %v after %d calls", id, err, asked)
	}
}
