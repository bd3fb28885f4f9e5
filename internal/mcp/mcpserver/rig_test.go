package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"perigee"
	"perigee/internal/lib/filetool"
	"perigee/internal/mcp/ask"
	"perigee/internal/testing/perigeetest"
	"perigee/internal/testing/perigeetest/await"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A backendRig is a backend whose asks a test answers. Without an answer func an ask echoes its
// prompt.
type backendRig struct {
	answer func(ctx context.Context, r ask.Request, progress func(ask.Progress)) (ask.Answer, error)
	trace  perigee.Trace
	found  bool
	err    error

	mu       sync.Mutex
	asks     []ask.Request
	queries  []perigee.UsageQuery
	failures []string // key and all of each query
}

func (b *backendRig) Ask(ctx context.Context, r ask.Request, progress func(ask.Progress)) (ask.Answer, error) {
	b.mu.Lock()
	b.asks = append(b.asks, r)
	b.mu.Unlock()
	if b.answer != nil {
		return b.answer(ctx, r, progress)
	}
	return ask.Answer{Text: "echo: " + r.Prompt, Conversation: "c1", Status: ask.Done, Source: "simulator", Model: "m",
		Usage: &perigee.Usage{Input: 3, Cached: 1, Output: 2, Thinking: 1}}, nil
}

func (b *backendRig) Open(context.Context) (perigee.Control, func(), error) {
	c := controlRig{err: b.err}
	return perigee.Control{RoutingControl: c, QuotaControl: c}, func() {}, nil
}

// A controlRig is a control with two models and the quota of one.
type controlRig struct {
	perigee.RoutingControl
	err error
}

func (c controlRig) Models(context.Context, string, bool) (perigee.ModelList, error) {
	return perigee.ModelList{Rows: []perigee.ModelRow{{ID: "gemini-3-flash", Upstream: "google", Context: 1000, Output: 100, Thinking: true, Default: true},
		{ID: "secret", Upstream: "google"}}}, c.err
}

func (c controlRig) Quota(context.Context, bool) (perigee.QuotaList, error) {
	return perigee.QuotaList{Rows: []perigee.QuotaRow{{Account: "a@example.org", Upstream: "google", Model: "gemini-3-flash", Pool: "p", Remaining: 0.5,
		ResetsAt: time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC), Windows: []perigee.QuotaWindow{{Window: "5h", Remaining: 0.5}}}}}, c.err
}

func (b *backendRig) Usage(_ context.Context, q perigee.UsageQuery) ([]perigee.UsageRow, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.queries = append(b.queries, q)
	return []perigee.UsageRow{{Group: "gemini-3-flash", Calls: 2, InputTokens: 10, OutputTokens: 5}}, b.err
}

func (b *backendRig) LastFailure(_ context.Context, key string, all bool) (perigee.Trace, bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures = append(b.failures, fmt.Sprint(key, " ", all))
	return b.trace, b.found, b.err
}

func (b *backendRig) lastAsk(t *testing.T) ask.Request {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.asks) == 0 {
		t.Fatal("nothing was asked")
	}
	return b.asks[len(b.asks)-1]
}

// newServer returns a server that is closed at the end of the test.
func newServer(t *testing.T, o Options) *Server {
	t.Helper()
	s := openServer(o)
	t.Cleanup(func() { s.Close() })
	return s
}

// openServer returns a server with defaults for the options that are not set.
func openServer(o Options) *Server {
	if o.Backend == nil {
		o.Backend = &backendRig{}
	}
	if o.Files == nil {
		o.Files = func(Caller) *filetool.Tools { return nil }
	}
	if o.ReadOnly == nil {
		o.ReadOnly = func() bool { return false }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Version = "1.2.3"
	return New(o)
}

// soon bounds a wait for an event.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// pipes connects a client of the SDK to a server on stdio.
func pipes(t *testing.T, s *Server, o *mcp.ClientOptions, prepare func(*mcp.Client)) *mcp.ClientSession {
	t.Helper()
	toServer, fromClient := io.Pipe()
	toClient, fromServer := io.Pipe()
	served := make(chan error, 1)
	go func() {
		served <- s.ServeStdio(context.Background(), toServer, fromServer)
		fromServer.Close()
	}()
	client := mcp.NewClient(&mcp.Implementation{Name: "test-client", Version: "9"}, o)
	if prepare != nil {
		prepare(client)
	}
	session, err := client.Connect(soon(t), &mcp.IOTransport{Reader: toClient, Writer: fromClient}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		session.Close()
		fromClient.Close()
		if err := await.Receive(t, served, "the end of ServeStdio"); err != nil {
			t.Errorf("ServeStdio: %v", err)
		}
		toServer.Close()
	})
	return session
}

// An httpRig is a server over HTTP. The header Key is the name of the caller's key.
type httpRig struct {
	*httptest.Server
	s *Server
}

func overHTTP(t *testing.T, s *Server) *httpRig {
	t.Helper()
	h := unstarted(t, s)
	h.Start()
	return h
}

// overPipes is overHTTP in a bubble.
func overPipes(t *testing.T, s *Server) *httpRig {
	t.Helper()
	h, pipes := unstarted(t, s), perigeetest.NewPipes()
	_ = h.Listener.Close()
	h.Listener = pipes
	h.Start()
	h.Client().Transport = &http.Transport{DialContext: pipes.Dial}
	t.Cleanup(h.Client().CloseIdleConnections)
	return h
}

func unstarted(t *testing.T, s *Server) *httpRig {
	t.Helper()
	h := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := Caller{Key: r.Header.Get("Key"), Trusted: r.Header.Get("Trusted") != ""}
		s.ServeHTTP(w, r.WithContext(WithCaller(r.Context(), c)))
	}))
	t.Cleanup(func() { s.Close(); h.CloseClientConnections(); h.Close() })
	return &httpRig{h, s}
}

type withHeader struct {
	http.RoundTripper
	name, value string
}

func (h withHeader) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set(h.name, h.value)
	return h.RoundTripper.RoundTrip(r)
}

// connect connects a client of the SDK.
func (h *httpRig) connect(t *testing.T, key string, o *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "test-client", Version: "9"}, o)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	session, err := client.Connect(soon(t), &mcp.StreamableClientTransport{Endpoint: h.URL + "/mcp", MaxRetries: -1,
		HTTPClient: &http.Client{Transport: withHeader{transport, "Key", key}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return session
}

// callTool calls a tool and returns its result, with the structured content decoded into out unless
// that is nil.
func callTool(t *testing.T, c *mcp.ClientSession, name string, args any, out any) *mcp.CallToolResult {
	t.Helper()
	r, err := c.CallTool(soon(t), &mcp.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if out != nil {
		data, err := json.Marshal(r.StructuredContent)
		if err == nil {
			err = json.Unmarshal(data, out)
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	return r
}

func textOf(t *testing.T, r *mcp.CallToolResult) string {
	t.Helper()
	if len(r.Content) == 0 {
		t.Fatal("no content")
	}
	text, ok := r.Content[0].(*mcp.TextContent)
	if !ok {
		t.Fatalf("%T instead of text", r.Content[0])
	}
	return text.Text
}
