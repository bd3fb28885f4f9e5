package server

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
)

// The list of origins holds from one request to the next, and caches learn that answers depend on
// it.
func TestOriginsChangeWhileTheServerRuns(t *testing.T) {
	const origin = "http://localhost:3000"
	s := New(Options{}, Settings{Loopback: true})
	get := func(method string) *http.Response {
		r := httptest.NewRequest(method, "http://127.0.0.1:8741/health", nil)
		r.Header.Set("Origin", origin)
		r.Header.Set("Access-Control-Request-Method", "GET")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w.Result()
	}
	for _, step := range []struct {
		origins   []string
		get, ask  int
		mentioned string
		vary      bool
	}{
		{nil, 403, 403, "", false},
		{[]string{origin}, 200, 204, origin, true},
		{[]string{"http://localhost:30"}, 403, 403, "", true},
	} {
		s.Apply(Settings{Loopback: true, Origins: step.origins})
		for method, status := range map[string]int{http.MethodGet: step.get, http.MethodOptions: step.ask} {
			resp := get(method)
			if resp.StatusCode != status || resp.Header.Get("Access-Control-Allow-Origin") != step.mentioned ||
				slices.Contains(resp.Header.Values("Vary"), "Origin") != step.vary ||
				resp.Header.Get("Access-Control-Allow-Credentials") != "" {
				t.Errorf("%s with %q: %d %v", method, step.origins, resp.StatusCode, resp.Header)
			}
		}
	}
}
