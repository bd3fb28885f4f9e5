package server

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	loopback := Settings{Loopback: true, Hosts: []string{"dev.example."}, Origins: []string{"https://app.example.com"}}
	for _, test := range []struct {
		policy       Settings
		host         string
		origin, site string
		want         bool
	}{
		{loopback, "127.0.0.1:8318", "", "", true},
		{loopback, "LOCALHOST", "", "", true},
		{loopback, "[::1]:8318", "", "", true},
		{loopback, "DEV.example", "", "", true},
		{loopback, "evil.example", "", "", false},
		{loopback, "127.0.0.1.evil.example", "", "", false},
		{loopback, "", "", "", false},
		{Settings{}, "evil.example", "", "", true},
		{loopback, "localhost:1", "http://localhost:1", "same-origin", true},
		{loopback, "localhost:1", "http://localhost:2", "same-site", false},
		{loopback, "localhost:1", "https://APP.example.com", "cross-site", true},
		{loopback, "localhost:1", "https://app.example.com.evil.example", "cross-site", false},
		{loopback, "localhost:1", "null", "", false},
		{loopback, "localhost:1", "null", "cross-site", false},
		{loopback, "localhost:1", "null", "same-site", false},
		{loopback, "localhost:1", "null", "same-origin", true},
		{loopback, "localhost:1", "", "cross-site", false},
		{loopback, "localhost:1", "", "none", true},
	} {
		r := httptest.NewRequest("POST", "/", nil)
		r.Host = test.host
		if test.origin != "" {
			r.Header.Set("Origin", test.origin)
		}
		r.Header.Set("Sec-Fetch-Site", test.site)
		if err := test.policy.checkPage(r); (err == nil) != test.want {
			t.Errorf("host %q, origin %q, %s: %v", test.host, test.origin, test.site, err)
		}
	}
	r := httptest.NewRequest("POST", "http://localhost/", nil)
	r.Header["Origin"] = []string{"https://app.example.com", "https://evil.example"}
	if loopback.checkPage(r) == nil {
		t.Error("the second of two origins is not looked at")
	}
}

func TestOnlyAllowedOriginsHavePreflights(t *testing.T) {
	policy := Settings{Origins: []string{"https://app.example.com"}}
	for _, test := range []struct {
		method, origin, asks string
		want                 bool
	}{
		{"OPTIONS", "https://app.example.com", "POST", true},
		{"OPTIONS", "https://app.example.com", "", false},
		{"POST", "https://app.example.com", "POST", false},
		{"OPTIONS", "https://evil.example", "POST", false},
		{"OPTIONS", "", "POST", false},
	} {
		r := httptest.NewRequest(test.method, "/", nil)
		r.Header.Set("Origin", test.origin)
		r.Header.Set("Access-Control-Request-Method", test.asks)
		if got := policy.isPreflight(r); got != test.want {
			t.Errorf("%+v: %v", test, got)
		}
	}
}

func TestPreflightOfAPrivateNetwork(t *testing.T) {
	for _, asked := range []string{"", "true", "yes"} {
		header := http.Header{"Access-Control-Expose-Headers": {"x"}}
		r := httptest.NewRequest("OPTIONS", "/", nil)
		r.Header.Set("Access-Control-Request-Private-Network", asked)
		preflight(header, r, "GET")
		if got := header.Get("Access-Control-Allow-Private-Network"); (got == "true") != (asked == "true") {
			t.Errorf("%q: %q", asked, got)
		}
		if header.Get("Access-Control-Allow-Methods") != "GET" || header.Get("Access-Control-Expose-Headers") != "" {
			t.Errorf("%v", header)
		}
	}
}

// A page may read every header that perigee has for clients.
func TestHeadersOfAnswersAreExposed(t *testing.T) {
	for _, name := range []string{"x-perigee-call", "x-perigee-upstream", "x-perigee-model", "x-perigee-notes",
		"x-perigee-class", "retry-after", "x-should-retry"} {
		if !slices.Contains(strings.Split(exposedHeaders, ", "), name) {
			t.Errorf("%s is not exposed", name)
		}
	}
}

func TestRequestedHeadersAreAllowed(t *testing.T) {
	got := strings.Split(allowedHeaders("X-Stainless-OS,authorization, b@d,,\"quoted\", x-y"), ", ")
	if want := append(strings.Split(requestHeaders, ", "), "x-stainless-os", "x-y"); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// A preflight needs no key, so it must not cost more than any other refusal.
func TestRequestedHeadersAreBounded(t *testing.T) {
	var many []string
	for i := range 10_000 {
		many = append(many, "x"+strconv.Itoa(i))
	}
	if got := strings.Split(allowedHeaders(strings.Join(many, ",")), ", "); len(got) != maxAllowed || !slices.Contains(got, "x0") {
		t.Errorf("%d headers are allowed", len(got))
	}
}

// A link to the start page works wherever it stands. Nothing else does from another site.
func TestLinksToTheStartPage(t *testing.T) {
	for _, test := range []struct {
		method, path, mode, dest, origin string
		want                             bool
	}{
		{"GET", "/?ticket=x", "navigate", "document", "", true},
		{"HEAD", "/", "navigate", "document", "", true},
		{"POST", "/", "navigate", "document", "", false},
		{"GET", "/", "navigate", "iframe", "", false},
		{"GET", "/", "no-cors", "image", "", false},
		{"GET", "/v1/models", "navigate", "document", "", false},
		{"GET", "/", "navigate", "document", "https://evil.example", false},
	} {
		r := httptest.NewRequest(test.method, "http://localhost"+test.path, nil)
		r.Header.Set("Sec-Fetch-Site", "cross-site")
		r.Header.Set("Sec-Fetch-Mode", test.mode)
		r.Header.Set("Sec-Fetch-Dest", test.dest)
		if test.origin != "" {
			r.Header.Set("Origin", test.origin)
		}
		if err := (&Settings{Loopback: true}).checkPage(r); (err == nil) != test.want {
			t.Errorf("%+v: %v", test, err)
		}
	}
}
