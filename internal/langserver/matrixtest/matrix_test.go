//go:build unix

package matrixtest

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"perigee"
	"perigee/internal/langserver/extserver"
	"perigee/internal/langserver/lsclient"
	"perigee/internal/langserver/probe"
	"perigee/internal/langserver/supervisor"
	"perigee/internal/langserver/trajectory"
	"perigee/internal/simulator"
	"perigee/internal/simulator/standin"
	"perigee/internal/testing/perigeetest/await"
)

// TestMain is the language server where the test program is started as one.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "simulate" && os.Args[2] == "langserver" {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		code := standin.Main(ctx, standin.Command{Args: os.Args[3:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv})
		stop()
		os.Exit(code)
	}
	os.Exit(m.Run())
}

const patience = 60 * time.Second

// A kind is one language server of the matrix.
type kind struct {
	generation string
	beliefs    string // about the Extension Server, comma-separated
	path       string // to the cloud: endpoint or proxy
}

func (k kind) settings() string {
	if k.beliefs == "" {
		return "generation=" + k.generation
	}
	return "generation=" + k.generation + " belief=" + k.beliefs
}

// matrix is all kinds. The quick tests have one of each generation.
func matrix() []kind {
	if testing.Short() {
		return []kind{{"classic", "", "endpoint"}, {"classic2", "stream,bare", "proxy"}, {"hub", "", "proxy"}}
	}
	var all []kind
	for _, path := range []string{"endpoint", "proxy"} {
		for _, generation := range []string{"classic", "classic2"} {
			for _, beliefs := range []string{"", "bare", "stream", "stream,bare", "secret", "secret,stream,bare"} {
				all = append(all, kind{generation, beliefs, path})
			}
		}
		all = append(all, kind{"hub", "", path}, kind{"hub2", "", path})
	}
	return all
}

// times is a line of the table.
type times struct {
	kind
	ready, answered, renewed, back time.Duration
	calls                          int64 // of the Extension Server
}

func TestEveryKindOfLanguageServer(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	results := map[kind]times{}
	t.Run("kinds", func(t *testing.T) {
		for _, k := range matrix() {
			t.Run(fmt.Sprintf("%s/%s/%s", k.generation, k.beliefs, k.path), func(t *testing.T) {
				t.Parallel()
				result := newRig(t, k).run()
				mu.Lock()
				results[k] = result
				mu.Unlock()
			})
		}
	})
	var table bytes.Buffer
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\ngeneration\tform\tframing\ttoken from\tcloud by\tready\tanswer\tnew token\tafter a kill\textension calls")
	pick := func(beliefs, belief, yes, no string) string {
		if strings.Contains(beliefs, belief) {
			return yes
		}
		return no
	}
	for _, k := range matrix() {
		r, ok := results[k]
		form, framing, from := pick(k.beliefs, "stream", "stream", "unary"), pick(k.beliefs, "bare", "bare", "enveloped"), pick(k.beliefs, "secret", "secret", "topic")
		if k.generation == "hub" {
			form, framing, from = "-", "-", "file"
		}
		if !ok {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\tfailed\n", k.generation, form, framing, from, k.path)
			continue
		}
		ms := func(d time.Duration) string { return d.Round(time.Millisecond).String() }
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\n", k.generation, form, framing, from, k.path, ms(r.ready), ms(r.answered), ms(r.renewed), ms(r.back), r.calls)
	}
	_ = w.Flush()
	t.Log(table.String())
}

// rig is a supervised language server with everything around it.
type rig struct {
	t          *testing.T
	kind       kind
	cloud      *cloud
	extension  *extserver.Server
	supervisor *supervisor.Supervisor
	client     *lsclient.Client
	began      time.Time
	pids       []int // of all processes so far, which lead their groups
}

func newRig(t *testing.T, k kind) *rig {
	t.Helper()
	r := &rig{t: t, kind: k, cloud: newCloud(t)}
	command := []string{os.Args[0], "simulate", "langserver"}
	env := map[string]string{standin.Variable: k.settings()}
	found, err := probe.Options{Command: command, Env: env}.Probe(t.Context())
	check(t, err)
	r.extension = extserver.New(extserver.Options{Started: func(e supervisor.Endpoint) {
		r.supervisor.SetEndpoint(e)
	}})
	check(t, r.extension.Start(t.Context()))
	t.Cleanup(func() { _ = r.extension.Close(context.Background()) })
	endpoint, variables := r.cloud.reach(k.path)
	call := func(e supervisor.Endpoint) *lsclient.Client {
		return lsclient.New(lsclient.Options{Endpoint: lsclient.Fixed(lsclient.Endpoint(e))})
	}
	r.supervisor = supervisor.New(supervisor.Options{
		Name: "headless", Command: command, Probe: found, Home: filepath.Join(t.TempDir(), "home"), Env: env, Variables: variables,
		Extension: supervisor.Extension{Port: r.extension.Port(), CSRF: r.extension.CSRF()}, CloudEndpoint: endpoint, StartTimeout: patience,
		Ready:     func(ctx context.Context, e supervisor.Endpoint) error { return call(e).Ready(ctx, true) },
		Heartbeat: func(ctx context.Context, e supervisor.Endpoint) error { return call(e).Heartbeat(ctx) },
		Exit:      func(ctx context.Context, e supervisor.Endpoint) error { return call(e).Exit(ctx) },
	})
	r.client = lsclient.New(lsclient.Options{Endpoint: func(ctx context.Context, stale bool) (lsclient.Endpoint, error) {
		find := r.supervisor.Wait
		if stale {
			find = r.supervisor.Recheck
		}
		e, err := find(ctx)
		return lsclient.Endpoint(e), err
	}})
	return r
}

// run takes the language server through its life.
func (r *rig) run() (result times) {
	t := r.t
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	result.kind, r.began = r.kind, time.Now()
	first := r.signIn()
	check(t, r.supervisor.Start(context.Background()))
	defer func() {
		check(t, r.supervisor.Stop(context.Background()))
		r.expectNoProcess()
	}()
	_, err := r.supervisor.Wait(ctx)
	check(t, err)
	r.pids = append(r.pids, r.supervisor.Status().PID)
	result.ready = r.lap()

	r.converse(ctx, "first")
	result.answered = r.lap()
	r.expectBearer(first)

	second := r.signIn()
	for r.cloud.lastBearer() != second {
		r.converse(ctx, "renewed") // the change reaches the process at its own pace
	}
	result.renewed = r.lap()

	check(t, syscall.Kill(r.pids[0], syscall.SIGKILL))
	r.converse(ctx, "back") // at once: the call finds the connection refused or cut, and waits
	result.back = r.lap()
	r.expectBearer(second)
	status := r.supervisor.Status()
	if status.Restarts != 1 || status.PID == r.pids[0] {
		t.Errorf("status is %+v", status)
	}
	r.pids = append(r.pids, status.PID)
	for method, codes := range r.extension.Requests() {
		for code, n := range codes {
			result.calls += n
			if code != "ok" && method != "LaunchBrowser" && code != "canceled" {
				t.Errorf("%d calls of %s ended with %s", n, method, code)
			}
		}
	}
	return result
}

// lap returns the time since the last call. Real time: it is printed, and compared with nothing.
func (r *rig) lap() time.Duration {
	took := time.Since(r.began)
	r.began = time.Now()
	return took
}

// signIn gives the language server a new token.
func (r *rig) signIn() string {
	access, expiry := r.cloud.token(), time.Now().Add(time.Hour)
	if r.kind.generation == "hub" {
		check(r.t, r.supervisor.SetToken(perigee.NewSecret(access), expiry))
	} else {
		r.extension.SetToken(extserver.Token{Access: perigee.NewSecret(access), Expiry: expiry})
	}
	return access
}

// converse starts a conversation, says a text and expects it back.
func (r *rig) converse(ctx context.Context, text string) {
	t := r.t
	t.Helper()
	cascade, err := r.client.Start(ctx, lsclient.StartOptions{})
	check(t, err)
	_, err = r.client.Send(ctx, cascade, lsclient.Message{Text: "[[text: " + text + "]][[chunks: 3]]", Model: "MODEL_PLACEHOLDER_M18"})
	check(t, err)
	var said strings.Builder
	follower := trajectory.Follower{Reader: r.client, Cascade: cascade}
	reason := trajectory.Reason("")
	for event, err := range follower.Events(ctx) {
		check(t, err)
		switch event.Kind {
		case trajectory.KindText:
			said.WriteString(event.Text)
		case trajectory.KindTextReplaced:
			said.Reset()
			said.WriteString(event.Text)
		case trajectory.KindError:
			t.Errorf("%s: %v", text, event.Error)
		case trajectory.KindDone:
			reason = event.Reason
		}
	}
	if said.String() != text {
		t.Fatalf("said %q instead of %q, and ended with %q", said.String(), text, reason)
	}
}

func (r *rig) expectBearer(token string) {
	r.t.Helper()
	if got := r.cloud.lastBearer(); got != token {
		r.t.Errorf("the cloud saw another token than %q", token)
	}
}

// expectNoProcess looks for members of the groups of all processes.
func (r *rig) expectNoProcess() {
	r.t.Helper()
	for _, pid := range r.pids {
		await.Until(r.t, fmt.Sprintf("the end of the group of process %d", pid), func() bool {
			return errors.Is(syscall.Kill(-pid, 0), syscall.ESRCH)
		})
	}
}

// cloud is the simulated provider without TLS, and with TLS behind a proxy.
type cloud struct {
	t     *testing.T
	sim   *simulator.Server
	plain *httptest.Server

	mu     sync.Mutex
	bearer string // of the last call of an agent
}

func newCloud(t *testing.T) *cloud {
	sim, err := simulator.New(simulator.Options{})
	check(t, err)
	c := &cloud{t: t, sim: sim}
	c.plain = httptest.NewServer(c)
	t.Cleanup(func() {
		_ = sim.Close()
		c.plain.Close()
	})
	return c
}

func (c *cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var envelope struct {
		RequestType string `json:"requestType"`
	}
	if json.Unmarshal(body, &envelope) == nil && envelope.RequestType == "agent" {
		c.mu.Lock()
		c.bearer = strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		c.mu.Unlock()
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	c.sim.ServeHTTP(w, r)
}

func (c *cloud) lastBearer() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bearer
}

func (c *cloud) token() string {
	form := url.Values{"grant_type": {"refresh_token"}, "client_id": {"c"}, "client_secret": {"s"}, "refresh_token": {"sim-refresh-ada"}}
	response, err := http.PostForm(c.plain.URL+"/token", form)
	check(c.t, err)
	defer response.Body.Close()
	var answer struct {
		AccessToken string `json:"access_token"`
	}
	check(c.t, json.NewDecoder(response.Body).Decode(&answer))
	return answer.AccessToken
}

// reach returns the endpoint for the language server, and the variables without which it does not
// find it.
func (c *cloud) reach(path string) (endpoint string, variables map[string]string) {
	if path == "endpoint" {
		return c.plain.URL, nil
	}
	secure := httptest.NewUnstartedServer(c)
	secure.EnableHTTP2 = true
	secure.StartTLS()
	c.t.Cleanup(secure.Close)
	proxy := httptest.NewServer(tunnel(secure.Listener.Addr().String()))
	c.t.Cleanup(proxy.Close)
	roots := filepath.Join(c.t.TempDir(), "roots.pem")
	check(c.t, os.WriteFile(roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}), 0o600))
	return "https://example.com", map[string]string{"HTTPS_PROXY": proxy.URL, "SSL_CERT_FILE": roots, "NO_PROXY": "127.0.0.1,localhost"}
}

// tunnel is a proxy that leads every CONNECT to one address.
func tunnel(address string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			http.Error(w, "only CONNECT", http.StatusMethodNotAllowed)
			return
		}
		server, err := net.Dial("tcp", address)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer server.Close()
		client, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer client.Close()
		io.WriteString(client, "HTTP/1.1 200 OK\r\n\r\n")
		go func() {
			_, _ = io.Copy(server, buffered)
			_ = server.(*net.TCPConn).CloseWrite()
		}()
		_, _ = io.Copy(client, server)
	})
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
