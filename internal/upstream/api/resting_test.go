package api

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"perigee"
	"perigee/internal/store/config"
)

// An upstream rests for a model when the provider has limited each of its keys, until the first
// cooldown ends.
func TestResting(t *testing.T) {
	var seconds atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Retry-After", fmt.Sprint(seconds.Add(10)))
		w.WriteHeader(http.StatusTooManyRequests)
		fmt.Fprint(w, `{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"slow down"}}`)
	}))
	defer server.Close()
	now := time.Unix(1000, 0)
	u := New(Gemini, Options{Name: "s", URL: server.URL, Keys: []perigee.Secret{perigee.NewSecret("a"), perigee.NewSecret("b")},
		Now: func() time.Time { return now }})
	defer u.Close()
	if why, _ := u.Resting("m"); why != "" {
		t.Errorf("before a call: %s", why)
	}
	req := request(t, true)
	req.Model = "m"
	if _, err := ask(t.Context(), u, req); err == nil {
		t.Fatal("the call was answered")
	}
	why, until := u.Resting("m")
	if why != "the provider has limited its 2 API keys" || !until.After(now) {
		t.Errorf("got %q until %v", why, until)
	}
	limited := perigee.KeyProblem{Upstream: "s", Model: "m", Why: "its 2 API keys are limited", Until: until.UTC().Truncate(time.Second)}
	if got := u.KeyProblems(); len(got) != 1 || got[0] != limited {
		t.Errorf("got %+v, want %+v", got, limited)
	}
	if why, _ := u.Resting("other"); why != "" {
		t.Errorf("another model: %s", why)
	}
	now = until
	if why, _ := u.Resting("m"); why != "" {
		t.Errorf("after the cooldown: %s", why)
	}
	if got := u.KeyProblems(); len(got) != 0 {
		t.Errorf("after the cooldown: %+v", got)
	}
}

// A key that the provider refuses is named until it is accepted, also after its cooldown.
func TestRefusedKeysAreNamed(t *testing.T) {
	var mended atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.Header.Get("X-Goog-Api-Key") == "bad" && !mended.Load() {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"error":{"code":401,"status":"UNAUTHENTICATED","message":"no such key"}}`)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"hi\"}]},\"finishReason\":\"STOP\"}]}\n\n")
	}))
	defer server.Close()
	now := time.Unix(1000, 0)
	u := New(Gemini, Options{Name: "s", URL: server.URL, Keys: []perigee.Secret{perigee.NewSecret("bad"), perigee.NewSecret("good")},
		Now: func() time.Time { return now }})
	defer u.Close()
	for range 2 {
		if _, err := ask(t.Context(), u, request(t, true)); err != nil {
			t.Fatal(err)
		}
		now = now.Add(2 * rejectedRest)
		refused := perigee.KeyProblem{Upstream: "s", Why: "the provider refuses API key 1 of 2"}
		if got := u.KeyProblems(); len(got) != 1 || got[0] != refused {
			t.Errorf("got %+v, want %+v", got, refused)
		}
	}
	mended.Store(true)
	if _, err := ask(t.Context(), u, request(t, true)); err != nil {
		t.Fatal(err)
	}
	if got := u.KeyProblems(); len(got) != 0 {
		t.Errorf("after it was accepted: %+v", got)
	}
}

// A refusal of an upstream without keys asks for keys, and not to check them.
func TestRefusalsWithoutKeys(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"error":{"message":"no"}}`)
	}))
	defer server.Close()
	const checks = "upstream s: the provider refused the API key: no; check the keys of this upstream in the configuration"
	for _, c := range []struct {
		opts      Options
		want, why string
	}{
		{Options{}, "upstream s: " + noKeys + ": no; add keys to this upstream in the configuration, such as keys: [env:API_KEY]", noKeys},
		{Options{Keys: []perigee.Secret{perigee.NewSecret("k")}}, checks, "the provider rejects its API keys"},
		{Options{Header: http.Header{"Api-Key": {"0123456789abcdef"}}}, checks, "the provider rejects its API keys"},
	} {
		c.opts.Name, c.opts.URL = "s", server.URL
		u := New(newOpenAI(config.Upstream{}), c.opts)
		_, err := ask(t.Context(), u, requestIn(t, perigee.DialectOpenAIChat, "m", true, "hi", ""))
		if e := perigee.AsError(err); e.Class != perigee.ClassUnauthenticated || e.Error() != c.want {
			t.Errorf("%s %v", e.Class, err)
		}
		if why, _ := u.Resting("m"); len(c.opts.Keys) > 0 && why != "the provider has refused its API key" {
			t.Errorf("rests because %q", why)
		}
		if got := u.KeyProblems(); u.Unusable() != c.why || len(got) != 1 || (got[0].Why == noKeys) != (c.why == noKeys) {
			t.Errorf("unusable: %q, problems %+v", u.Unusable(), got)
		}
		_ = u.Close()
	}
}
