package cloud

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"perigee/internal/testing/perigeetest/await"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A rig is an endpoint in front of a cloud that a test plays.
func newRig(t *testing.T, cloud http.HandlerFunc) *Endpoint {
	t.Helper()
	server := httptest.NewServer(cloud)
	transport := &http.Transport{DisableCompression: true}
	e := listen(t, Options{Cloud: server.URL, Transport: transport, Project: func(token string) string {
		return map[string]string{"ada": "project-ada", "bob": `project "bob"`}[token]
	}})
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		transport.CloseIdleConnections()
		http.DefaultClient.CloseIdleConnections()
		server.Close()
	})
	return e
}

func listen(t *testing.T, opts Options) *Endpoint {
	t.Helper()
	h, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	e, err := Listen(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func request(t *testing.T, e *Endpoint, body io.Reader, header ...string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, e.URL()+"/v1internal:streamGenerateContent?alt=sse", body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

func TestProjectsFitTheirTokens(t *testing.T) {
	type call struct {
		path, body, agent, host, auth string
		length                        int64
	}
	var got call
	e := newRig(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = call{r.URL.RequestURI(), string(body), r.UserAgent(), r.Host, r.Header.Get("Authorization"), r.ContentLength}
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, "short and stout")
	})
	for _, c := range []struct{ name, token, encoding, in, want string }{
		{"another account", "Bearer ada", "", `{"project":"project-old","request":{"project":"inner"}}`, `{"project":"project-ada","request":{"project":"inner"}}`},
		{"a name with quotes", "Bearer bob", "", `{"model":"m", "project" : "x"}`, `{"model":"m", "project" : "project \"bob\""}`},
		{"the same account", "Bearer ada", "", `{"project":"project-ada"}`, ""},
		{"an unknown token", "Bearer eve", "", `{"project":"project-old"}`, ""},
		{"no token", "", "", `{"project":"project-old"}`, ""},
		{"no project", "Bearer ada", "", `{"metadata":{"project":"x"}}`, ""},
		{"an empty project", "Bearer ada", "", `{"project":""}`, ""},
		{"a project that is no text", "Bearer ada", "", `{"project":{"id":1}}`, ""},
		{"no JSON", "Bearer ada", "", `{"project":"project-old"`, ""},
		{"compressed", "Bearer ada", "gzip", `{"project":"project-old"}`, ""},
		{"empty", "Bearer ada", "", ``, ""},
	} {
		for _, chunked := range []bool{false, true} {
			var body io.Reader = strings.NewReader(c.in)
			if chunked {
				body = io.MultiReader(body)
			}
			r := request(t, e, body, "Authorization", c.token, "User-Agent", "antigravity/1.2.3")
			if c.encoding != "" {
				r.Header.Set("Content-Encoding", c.encoding)
			}
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			said, _ := io.ReadAll(answer.Body)
			answer.Body.Close()
			want := c.want
			if want == "" {
				want = c.in
			}
			if got.body != want || got.path != "/v1internal:streamGenerateContent?alt=sse" || got.agent != "antigravity/1.2.3" || got.auth != strings.TrimSpace(c.token) {
				t.Errorf("%s: the cloud got %+v, want %s", c.name, got, want)
			}
			if !chunked && got.length != int64(len(want)) {
				t.Errorf("%s: length %d", c.name, got.length)
			}
			if "http://"+got.host == e.URL() {
				t.Errorf("%s: the cloud was called by the name of the endpoint", c.name)
			}
			if answer.StatusCode != http.StatusTeapot || string(said) != "short and stout" {
				t.Errorf("%s: answered %d %s", c.name, answer.StatusCode, said)
			}
		}
	}
}

// Events of a stream are passed on as they come, and the end of the caller reaches the cloud.
func TestStreamsFlow(t *testing.T) {
	left := make(chan struct{})
	e := newRig(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: one\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(left)
	})
	ctx, cancel := context.WithCancel(t.Context())
	answer, err := http.DefaultClient.Do(request(t, e, strings.NewReader(`{}`), "Authorization", "Bearer ada").WithContext(ctx))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if line, err := bufio.NewReader(answer.Body).ReadString('\n'); line != "data: one\n" {
		t.Errorf("got %q, %v", line, err)
	}
	cancel()
	await.Receive(t, left, "the end of the stream in the cloud")
}

// A stream that breaks off in the cloud does not look complete.
func TestCutStreamsAreCut(t *testing.T) {
	e := newRig(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "data: one\n\n")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	answer, err := http.DefaultClient.Do(request(t, e, strings.NewReader(`{}`)))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if said, err := io.ReadAll(answer.Body); err == nil {
		t.Errorf("got %q, complete", said)
	}
}

func TestUnreachableCloud(t *testing.T) {
	e := listen(t, Options{Cloud: "http://127.0.0.1:1", Transport: &http.Transport{}, Project: func(string) string { return "" }})
	defer e.Close()
	defer http.DefaultClient.CloseIdleConnections()
	answer, err := http.DefaultClient.Do(request(t, e, bytes.NewReader([]byte(`{}`))))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	said, _ := io.ReadAll(answer.Body)
	if answer.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(said), `"status":"UNAVAILABLE"`) {
		t.Errorf("got %d %s", answer.StatusCode, said)
	}
}

func TestPassedRequestThatBreaksOff(t *testing.T) {
	r := newCallRig(t, func(w http.ResponseWriter, _ *http.Request) {})
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "POST /v1internal:loadCodeAssist HTTP/1.1\r\nHost: "+conn.RemoteAddr().String()+"\r\nContent-Type: application/json\r\n"+
		"Transfer-Encoding: chunked\r\n\r\n5\r\nbegun\r\nno length\r\n")
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	said, _ := io.ReadAll(answer.Body)
	if answer.StatusCode != http.StatusBadRequest || !strings.Contains(string(said), "broke off") || !strings.Contains(string(said), "INVALID_ARGUMENT") {
		t.Errorf("got %d %s", answer.StatusCode, said)
	}
}

func TestOnlyForTheLanguageServer(t *testing.T) {
	e := newRig(t, func(http.ResponseWriter, *http.Request) { t.Error("the cloud was called") })
	for _, change := range []func(*http.Request){
		func(r *http.Request) { r.Host = "example.com" },
		func(r *http.Request) { r.Header.Set("Origin", "http://127.0.0.1") },
	} {
		r := request(t, e, strings.NewReader(`{}`))
		change(r)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusForbidden {
			t.Errorf("got %d", answer.StatusCode)
		}
	}
}
