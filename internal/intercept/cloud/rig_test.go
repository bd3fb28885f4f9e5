package cloud

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"perigee/internal/testing/perigeetest/await"
)

// A rig is an endpoint in front of a cloud that a test plays. The test also plays the language
// server and the client.
type rig struct {
	*testing.T
	calls *Calls
	base  string // where the language server sends its requests
	cloud *httptest.Server
	agent *http.Client // of the language server

	transport *http.Transport // to the cloud

	mu       sync.Mutex
	seen     []seen
	finished chan struct{} // with the language server, which was cut off
}

// seen is a request that the cloud got.
type seen struct {
	uri, host string
	header    http.Header
	body      string
	length    int64
}

// newCallRig returns a rig whose cloud answers with a function. Requests are noted before it is
// called.
func newCallRig(t *testing.T, cloud http.HandlerFunc, change ...func(*Options)) *rig {
	t.Helper()
	r := &rig{T: t, calls: NewCalls(), finished: make(chan struct{}, 1000)}
	r.cloud = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		r.mu.Lock()
		r.seen = append(r.seen, seen{req.URL.RequestURI(), req.Host, req.Header, string(body), req.ContentLength})
		r.mu.Unlock()
		cloud(w, req)
	}))
	transport := &http.Transport{DisableCompression: true}
	r.transport = transport
	opts := Options{Calls: r.calls, Cloud: r.cloud.URL, Transport: transport, Logger: slog.New(cutOffs(r.finished))}
	for _, c := range change {
		c(&opts)
	}
	e := listen(t, opts)
	r.base = e.URL()
	own := &http.Transport{DisableCompression: true, ExpectContinueTimeout: await.Limit}
	r.agent = &http.Client{Transport: own}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		own.CloseIdleConnections()
		transport.CloseIdleConnections()
		r.cloud.Close()
	})
	return r
}

// overHTTP2 lets the language server come over TLS with HTTP/2, as it does through a proxy.
func (r *rig) overHTTP2() *rig {
	r.Helper()
	h, err := New(Options{Calls: r.calls, Cloud: r.cloud.URL, Transport: r.transport, Logger: slog.New(cutOffs(r.finished))})
	if err != nil {
		r.Fatal(err)
	}
	server := httptest.NewUnstartedServer(h)
	server.EnableHTTP2 = true
	server.StartTLS()
	r.Cleanup(server.Close)
	r.base, r.agent = server.URL, server.Client()
	return r
}

const (
	cascade    = "0b5e8f8c-3d0c-4a57-9c55-1f1f2d1c7a01"
	streamPath = "/v1internal:streamGenerateContent?alt=sse"
)

// native is a request of a language server, in the order of the real one.
func native(id string) string {
	return fmt.Sprintf(`{"project":"project-ls","requestId":%q,"request":{"contents":[{"role":"user","parts":[{"text":"<USER_REQUEST>\ncarrier\n</USER_REQUEST>"}]}],`+
		`"systemInstruction":{"role":"user","parts":[{"text":"You are Antigravity"}]},"tools":[{"functionDeclarations":[{"name":"run_command"}]}],`+
		`"toolConfig":{"functionCallingConfig":{"mode":"VALIDATED"}},"labels":{"trajectory_id":"t-1","model_enum":"MODEL_PLACEHOLDER_M18"},`+
		`"generationConfig":{"maxOutputTokens":16384},"sessionId":"-3750763034362895579"},"model":"gemini-native","userAgent":"antigravity","requestType":"agent"}`, id)
}

func agentID(cascade string) string { return "agent/" + cascade + "/1763287200000/5d1a/1" }

// send sends a request as the language server does.
func (r *rig) send(ctx context.Context, path, body string, header ...string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.base+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer token-of-the-language-server")
	req.Header.Set("User-Agent", "antigravity/1.2.3 linux/amd64")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return r.agent.Do(req)
}

// A copied is what the language server got.
type copied struct {
	status int
	header http.Header
	body   string
	err    error
}

// carrier sends the request of a language server in the background.
func (r *rig) carrier(body string, header ...string) <-chan copied {
	return r.carrierOn(streamPath, body, header...)
}

func (r *rig) carrierOn(path, body string, header ...string) <-chan copied {
	got := make(chan copied, 1)
	go func() {
		response, err := r.send(r.Context(), path, body, header...)
		if err != nil {
			got <- copied{err: err}
			return
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		got <- copied{response.StatusCode, response.Header, string(text), err}
	}()
	return got
}

// answerOf returns what Wait of a call does.
func answerOf(t *testing.T, e *Expected) (response *http.Response, err error) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		response, err = e.Wait()
	}()
	await.Receive(t, done, "the answer to a call")
	return response, err
}

// requests returns what the cloud has got.
func (r *rig) requests() []seen {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]seen(nil), r.seen...)
}

// call makes one call over the cascade and returns what the client and the language server got.
func (r *rig) call(call Call) (client string, ls copied) {
	r.Helper()
	e := r.calls.Expect(r.Context(), cascade, call)
	defer e.Cancel()
	got := r.carrier(native(agentID(cascade)), "Proxy-Authorization", "Basic eA==", "Te", "trailers", "X-Api", "kept")
	response, err := answerOf(r.T, e)
	if err != nil {
		r.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		r.Error(err)
	}
	return string(text), await.Receive(r.T, got, "the answer for the language server")
}

// events answers with a stream of events.
func events(data ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, d := range data {
			_, _ = io.WriteString(w, "data: "+d+"\r\n\r\n")
			_ = http.NewResponseController(w).Flush()
		}
	}
}

const (
	hello   = `{"response":{"candidates":[{"content":{"role":"model","parts":[{"text":"hello"}]}}],"modelVersion":"gemini-3-flash"},"traceId":"7"}`
	calling = `{"response":{"candidates":[{"content":{"role":"model","parts":[{"text":"I look"},{"functionCall":{"name":"read","args":{"path":"a"}},"thoughtSignature":"c2ln"}]},"finishReason":"STOP"}],` +
		`"usageMetadata":{"promptTokenCount":9007199254740993,"totalTokenCount":1539}},"traceId":"7"}`
)

// httptestServer starts a server and returns its URL.
func httptestServer(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

// cutOffs is a handler of log lines, which gets a value for each that says that the language
// server was cut off.
type cutOffs chan struct{}

func (c cutOffs) Enabled(context.Context, slog.Level) bool { return true }

func (c cutOffs) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "language server cut off from an answer" {
		c <- struct{}{}
	}
	return nil
}

func (c cutOffs) WithAttrs([]slog.Attr) slog.Handler { return c }

func (c cutOffs) WithGroup(string) slog.Handler { return c }
