package antigravity

import (
	"net/http"
	"strings"
	"testing"

	"perigee/internal/simulator"
)

// Traps 14, 20 and 21: no header names a project of the user's, connections are kept, and the
// length of a body is told.
func TestRequestsAreWhatTheGatewayWants(t *testing.T) {
	var seen []*http.Request
	r := newRig(t, func(o *Options) {
		next := o.Transport
		o.Transport = roundTrip(func(req *http.Request) (*http.Response, error) {
			seen = append(seen, req)
			return next.RoundTrip(req)
		})
	})
	r.hear(prompt(t, "gemini-3-flash", user("[[text: hello]]")))
	if _, err := r.Models(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, req := range seen {
		if req.Header.Get("X-Goog-User-Project") != "" || req.Close || req.ContentLength <= 0 || len(req.TransferEncoding) > 0 {
			t.Errorf("%s: %v, close %v, length %d", req.URL, req.Header, req.Close, req.ContentLength)
		}
	}
}

// Trap 17: a client that is too old for a model gets a 404 like any other, so the advice names the
// version, too.
func TestOutdatedClientIsToldWhatToChange(t *testing.T) {
	r := newRig(t, nil, simulator.Fault{When: simulator.When{Path: "streamGenerateContent"}, Do: "version_too_old"})
	var last error
	for _, err := range r.Stream(t.Context(), prompt(t, "gemini-3-flash", user("hi"))) {
		last = err
	}
	if last == nil || !strings.Contains(last.Error(), "client_version") {
		t.Errorf("got %v", last)
	}
}

// Trap 56: no requests without a request of a client.
func TestNothingIsAskedUnasked(t *testing.T) {
	r := newRig(t, nil)
	r.hear(prompt(t, "claude-opus-4-6-thinking", user("[[text: hello]]")))
	var paths []string
	for _, call := range r.provider.Calls() {
		paths = append(paths, call.Path)
	}
	if got := strings.Join(paths, " "); got != "/token /v1internal:streamGenerateContent" {
		t.Errorf("asked %s", got)
	}
}
