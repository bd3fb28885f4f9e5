package api

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"perigee"
	"perigee/internal/store/config"
	"perigee/internal/testing/perigeetest/await"
)

// With round_robin each call begins with the next key. Keys with a cooldown still come last, and
// lists of models do not count.
func TestRoundRobin(t *testing.T) {
	ring := newKeyring([]perigee.Secret{perigee.NewSecret("a"), perigee.NewSecret("b"), perigee.NewSecret("c")})
	ring.roundRobin = true
	now, m := time.Unix(1000, 0), quota{model: "m"}
	var got []string
	order := func(q quota) {
		text := ""
		for _, k := range ring.order(q, now) {
			text += k.secret.Reveal()
		}
		got = append(got, text)
	}
	order(m)
	order(quota{})
	order(m)
	ring.coolDown(ring.keys[2], m, &perigee.Error{Class: perigee.ClassRateLimited, Retry: time.Minute}, now)
	order(m)
	order(m)
	order(quota{model: "other"})
	if want := "abc abc bca abc abc bca"; strings.Join(got, " ") != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Models that the configuration leaves out are not listed, and get 404 from every method without a
// request to the provider.
func TestModelsThatAreLeftOut(t *testing.T) {
	rig := &projectRig{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"models":[{"name":"models/pro-1"},{"name":"models/flash-1"},{"name":"models/lite"}]}`)
	}))
	defer server.Close()
	u := New(Gemini, Options{Name: "s", URL: server.URL, Models: []string{"pro-*", "lite"}})
	defer u.Close()
	list, err := u.Models(t.Context())
	if err != nil || len(list) != 2 || list[0].ID != "pro-1" || list[1].ID != "lite" {
		t.Errorf("listed %+v, %v", list, err)
	}
	u = New(Gemini, Options{Name: "s", URL: "https://provider.example", Models: []string{"pro-*"}, Transport: rig})
	defer u.Close()
	for _, what := range []string{"flash", "flash:countTokens", "flash:batchEmbedContents"} {
		if got := rig.do(t, u, what); got != ", not_found" {
			t.Errorf("%s: asked %s", what, got)
		}
	}
	if _, err := sendRaw(t, u, &perigee.RawRequest{}); perigee.AsError(err).Class != perigee.ClassNotFound {
		t.Errorf("a recorded request: %v", err)
	}
	if got := rig.do(t, u, "pro-2"); strings.Contains(got, "not_found") {
		t.Errorf("pro-2: asked %s", got)
	}
}

// Each request has the configured headers. Credentials take precedence over them, and without a key
// there are none.
func TestConfiguredHeaders(t *testing.T) {
	headers := make(chan http.Header, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		headers <- r.Header
		_, _ = io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, finished)
	}))
	defer server.Close()
	header := http.Header{"X-Title": {"perigee"}, "X-Goog-Api-Key": {"another"}}
	for keys, want := range map[string]string{"k": "k", "": "another"} {
		options := Options{Name: "s", URL: server.URL, Header: header, UserAgent: "perigee/1"}
		if keys != "" {
			options.Keys = []perigee.Secret{perigee.NewSecret(keys)}
		}
		u := New(Gemini, options)
		if text, err := ask(t.Context(), u, request(t, false)); text != "ok" || err != nil {
			t.Errorf("%q, %v", text, err)
		}
		got := await.Receive(t, headers, "the request")
		if got.Get("X-Title") != "perigee" || got.Get("X-Goog-Api-Key") != want || got.Get("User-Agent") != "perigee/1" || got.Get("Content-Type") != "application/json" {
			t.Errorf("with key %q: %v", keys, got)
		}
		_ = u.Close()
	}
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprintf(w, `{"error":{"code":400,"message":"not with %s","status":"INVALID_ARGUMENT"}}`, r.Header.Get("X-Gateway"))
	}))
	defer refusing.Close()
	u := New(Gemini, Options{Name: "s", URL: refusing.URL, Header: http.Header{"X-Gateway": {"Bearer a-long-credential"}}})
	defer u.Close()
	_, err := ask(t.Context(), u, request(t, false))
	if e := perigee.AsError(err); e == nil || strings.Contains(e.Error(), "a-long") || !strings.Contains(e.Error(), "Bearer [redacted]") {
		t.Errorf("the error is %v", err)
	}
	if header.Get("X-Goog-Api-Key") != "another" {
		t.Errorf("the configuration has changed: %v", header)
	}
}

// Providers that repeat a key or the credential of a configured header, in an error or in a header
// of an answer, do not show it to clients. Short keys count, too.
func TestRepeatedKeysAreRemoved(t *testing.T) {
	for _, status := range []int{http.StatusOK, http.StatusBadRequest, http.StatusUnauthorized} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			repeated := r.Header.Get("Authorization") + " " + r.Header.Get("X-Gateway")
			w.Header().Set("X-Request-Id", repeated)
			w.WriteHeader(status)
			if status != http.StatusOK {
				_, _ = fmt.Fprintf(w, `{"error":{"code":"invalid","message":"not with %s"}}`, repeated)
				return
			}
			_, _ = fmt.Fprint(w, `{"id":"c","choices":[{"index":0,"message":{"role":"assistant","content":"ok"},"finish_reason":"stop"}]}`)
		}))
		u := New(newOpenAI(config.Upstream{}), Options{Name: "o", URL: server.URL, Keys: []perigee.Secret{perigee.NewSecret("sk-1234")},
			Header: http.Header{"X-Gateway": {"a-long-credential"}}})
		var seen string
		for ev, err := range u.Stream(t.Context(), requestIn(t, perigee.DialectOpenAIChat, "m", false, "hi", "")) {
			if e := perigee.AsError(err); err != nil {
				seen += e.Error()
				if e.Raw != nil {
					seen += fmt.Sprintf("%s%v", e.Raw.Body, e.Raw.Header)
				}
			}
			if ev.Kind == perigee.EventStart {
				seen += fmt.Sprint(ev.Header)
			}
		}
		if strings.Contains(seen, "sk-1234") || strings.Contains(seen, "a-long") || !strings.Contains(seen, "Bearer [redacted] [redacted]") {
			t.Errorf("with status %d, the client sees %s", status, seen)
		}
		_ = u.Close()
		server.Close()
	}
}
