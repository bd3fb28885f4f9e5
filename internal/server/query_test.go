package server_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/server"
)

type anyUsage struct{}

func (anyUsage) Usage(context.Context, perigee.UsageQuery) ([]perigee.UsageRow, error) {
	return nil, nil
}

// No parameter vanishes: what cannot be read, is not known or is there twice is refused, and the
// answer says what to send.
func TestParametersDoNotVanish(t *testing.T) {
	s := server.New(server.Options{Upstream: answering{}, Usage: anyUsage{}, Calls: calls{}, Control: (&controlRig{}).
		control()}, server.Settings{})
	for _, test := range []struct {
		method, path string
		status       int
		want         string
	}{
		{"GET", "/v1/usage?by=key", 200, ""},
		{"GET", "/v1/usage?by=key;x=1", 400, "separate parameters with \\u0026 and write a semicolon as %3B"},
		{"GET", "/v1/usage?since=2026-01-01T00:00:00Z;until=x", 400, `parameter \"since\" cannot be read`},
		{"GET", "/v1/usage?by=%zz", 400, "write a percent sign as %25"},
		{"GET", "/v1/usage?by=key&by=model", 400, "is given 2 times; send it once"},
		{"GET", "/v1/usage?bye=key", 400, "did you mean by?"},
		{"GET", "/v1/quota?account=ada", 400, `no parameter \"account\"`},
		{"GET", "/v1/accounts?enabled=true", 400, "this path has no parameters"},
		{"GET", "/v1/accounts/status?modle=m", 400, "did you mean model?"},
		{"POST", "/v1/accounts/use?email=ada@example.com&upstrm=u", 400, "did you mean upstream?"},
		{"POST", "/v1/accounts?partial=true&dry_run=true", 400, `no parameter \"dry_run\"`},
		{"GET", "/v1/traces/last?limit=1", 400, "this path has no parameters"},
		{"GET", "/v1/models?limit=1;x", 400, "cannot be read"},
		{"POST", "/v1beta/models/m:generateContent?alt=json;x=1", 400, `"status":"INVALID_ARGUMENT"`},
		{"POST", "/v1/messages?beta=true;x=1", 400, `"type":"invalid_request_error"`},
		{"POST", "/v1/chat/completions?key=%", 400, "write a percent sign as %25"},
	} {
		r := httptest.NewRequest(test.method, test.path, strings.NewReader(`{}`))
		w := httptest.NewRecorder()
		s.Trusted().ServeHTTP(w, r)
		if body := w.Body.String(); w.Code != test.status || !strings.Contains(body, test.want) {
			t.Errorf("%s %s: got %d %s, want %d with %s", test.method, test.path, w.Code, body, test.status, test.want)
		}
	}
	r := httptest.NewRequest(http.MethodGet, "/v1/usage?key=hush-hush;by=key", nil)
	w := httptest.NewRecorder()
	s.Trusted().ServeHTTP(w, r)
	if w.Code != http.StatusBadRequest || strings.Contains(w.Body.String(), "hush") {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}
