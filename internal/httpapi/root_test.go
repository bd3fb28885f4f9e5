package httpapi

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"perigee"
)

// The address that serve prints leads to a page that says how to use it, in the form that the client asks for.
func TestRoot(t *testing.T) {
	open := New(Options{Model: func(name string) string {
		if name == "" {
			return "gemini-2.5-pro"
		}
		return name
	}}, Settings{Loopback: true})
	guarded := New(Options{Model: func(string) string { return "secret-model" }}, Settings{Keys: []Key{{Name: "laptop", Secret: perigee.NewSecret("client-secret")}}})
	for name, test := range map[string]struct {
		server     *Server
		host       string
		accept     string
		status     int
		kind       string
		want, lack []string
	}{
		"curl": {open, "127.0.0.1:8741", "*/*", 200, "text/plain; charset=utf-8",
			[]string{"ANTHROPIC_BASE_URL=http://127.0.0.1:8741 ANTHROPIC_AUTH_TOKEN=any\n", "ANTHROPIC_DEFAULT_HAIKU_MODEL=gemini-2.5-pro\n", "gemini -m gemini-2.5-pro", "\n      name = \"perigee\"\n", "wire_api = \"responses\"\n  Gemini"}, []string{"<", "env_key"}},
		"a browser": {open, "localhost:8741", "text/html,application/xhtml+xml,*/*;q=0.8", 200, "text/html; charset=utf-8",
			[]string{"<!doctype html>", "ANTHROPIC_BASE_URL=http://localhost:8741 ", "base_url = &#34;http://localhost:8741/v1&#34;"}, []string{"<script", "src=", "href="}},
		"with keys": {guarded, "perigee.example.com", "*/*", 200, "text/plain; charset=utf-8",
			[]string{"ANTHROPIC_AUTH_TOKEN=YOUR_KEY\n", "ANTHROPIC_MODEL=gemini-3-flash", "env_key"}, []string{"client-secret", "laptop", "secret-model"}},
		"a host that closes tags": {guarded, "<script>alert(1)</script>", "text/html", 200, "text/html; charset=utf-8",
			[]string{"&lt;script&gt;"}, []string{"<script"}},
		"a foreign host on loopback": {open, "evil.example.com", "text/html", 403, "application/json; charset=utf-8", nil, []string{"ANTHROPIC"}},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host = test.host
		r.Header.Set("Accept", test.accept)
		w := httptest.NewRecorder()
		test.server.ServeHTTP(w, r)
		if w.Code != test.status || w.Header().Get("Content-Type") != test.kind {
			t.Errorf("%s: %d %s", name, w.Code, w.Header().Get("Content-Type"))
		}
		if policy := w.Header().Get("Content-Security-Policy"); test.status == 200 && !strings.HasPrefix(policy, "default-src 'none'; style-src 'sha256-") {
			t.Errorf("%s: policy %q", name, policy)
		}
		for _, want := range test.want {
			if !strings.Contains(w.Body.String(), want) {
				t.Errorf("%s: no %q in\n%s", name, want, w.Body)
			}
		}
		for _, lack := range test.lack {
			if strings.Contains(w.Body.String(), lack) {
				t.Errorf("%s: %q in\n%s", name, lack, w.Body)
			}
		}
	}
}

// A route that is added is told of.
func TestRootNamesEveryRoute(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	w := httptest.NewRecorder()
	New(Options{}, Settings{}).ServeHTTP(w, r)
	for _, route := range routes {
		path, _, _ := strings.Cut(route.path, "/*")
		if !strings.Contains(w.Body.String(), path) && !strings.HasPrefix(path, "/api/") {
			t.Errorf("%s is missing", path)
		}
	}
}
