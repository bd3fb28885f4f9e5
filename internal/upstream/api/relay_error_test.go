package api

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/store/config"
	"perigee/internal/testing/perigeetest/await"
)

// The provider gets the client's headers for it, with several values, and none of its credentials.
// Configured headers win. The client gets the id and the limits of the provider's answer, streamed
// or not, beside perigee's own headers.
func TestForwardedHeaders(t *testing.T) {
	client := http.Header{"Anthropic-Version": {"2099-01-01"}, "Anthropic-Beta": {"a,b", "c"}, "Openai-Beta": {"d"}, "Openai-Organization": {"mine"},
		"Anthropic-Hop": {"x"}, "Connection": {"Anthropic-Hop"}, "Authorization": {"Bearer client"}, "X-Api-Key": {"client"}, "Cookie": {"a=b"}, "User-Agent": {"cli/1"}, "X-Stainless-Lang": {"js"}}
	for _, s := range spokenDialects {
		for _, stream := range []bool{true, false} {
			received := make(chan http.Header, 1)
			configured := http.Header{"Openai-Organization": {"configured"}, "X-Title": {"perigee"}}
			rig := newRelayRig(t, s.provider(t, nil), Options{Header: configured}, func(w http.ResponseWriter, r *http.Request) {
				received <- r.Header
				h := w.Header()
				h.Set("Request-Id", "req_provider")
				h.Set("X-Request-Id", "x_provider")
				h.Set("X-Ratelimit-Remaining-Tokens", "7")
				h["Anthropic-Ratelimit-Tokens-Limit"] = []string{"8"}
				h.Set("Set-Cookie", "a=b")
				h.Set("Openai-Organization", "secret-org")
				if stream {
					sends(s.stream, 1<<20)(w, r)
					return
				}
				h.Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, s.whole)
			})
			resp, _ := rig.ask(t, s.path, fmt.Sprintf(s.request, stream), client)
			got := await.Receive(t, received, "the request")
			for name, want := range map[string][]string{"Anthropic-Version": {"2099-01-01"}, "Anthropic-Beta": {"a,b", "c"}, "Openai-Beta": {"d"},
				"Openai-Organization": {"configured"}, "X-Title": {"perigee"}, "User-Agent": {"perigee/test"}, "Authorization": {"Bearer sk-secret-of-perigee"},
				"Anthropic-Hop": nil, "X-Api-Key": nil, "Cookie": nil, "X-Stainless-Lang": nil} {
				if !slices.Equal(got[name], want) {
					t.Errorf("%s, stream %v: the provider got %s %q", s.dialect, stream, name, got[name])
				}
			}
			for name, want := range map[string]string{"Request-Id": "req_provider", "X-Request-Id": "x_provider", "X-Ratelimit-Remaining-Tokens": "7",
				"Anthropic-Ratelimit-Tokens-Limit": "8", "X-Perigee-Upstream": "p", "Set-Cookie": "", "Openai-Organization": ""} {
				if resp.Header.Get(name) != want {
					t.Errorf("%s, stream %v: the client got %s %q", s.dialect, stream, name, resp.Header.Get(name))
				}
			}
			if resp.Header.Get("X-Perigee-Call") == "" {
				t.Errorf("%s, stream %v: no call", s.dialect, stream)
			}
		}
	}
}

// Without headers of the client the provider gets its own.
func TestProviderHasHeadersOfItsOwn(t *testing.T) {
	s := spokenDialects[2]
	rig := newRelayRig(t, s.provider(t, nil), Options{}, func(w http.ResponseWriter, r *http.Request) {
		if version := r.Header.Get("Anthropic-Version"); version != "2023-06-01" {
			t.Errorf("the version %q", version)
		}
		sends(s.stream, 1<<20)(w, r)
	})
	rig.ask(t, s.path, fmt.Sprintf(s.request, true), nil)
}

// An error in the dialect of the client passes unchanged, except for one about perigee's key, a
// prompt that is too long, and the page of a proxy.
func TestForwardedErrors(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		body   string
		want   int    // 0 if the error passes
		words  string // in the answer otherwise
		class  perigee.Class
	}{
		{"invalid", 400, `{"error": {"message":"no","type":"invalid_request_error","param":"x","code":null}}`, 0, "", perigee.ClassInvalid},
		{"a number as the code", 400, `{"error":{"message":"no","code":400}, "more":1}`, 0, "", perigee.ClassInvalid},
		{"flat", 422, `{"code":"c","error":"no"}`, 0, "", perigee.ClassInvalid},
		{"paid", 402, `{"error":{"message":"pay","code":402}}`, 0, "", perigee.ClassExhausted},
		{"forbidden", 403, `{"error":{"message":"moderated"}}`, 0, "", perigee.ClassForbidden},
		{"no such model", 404, `{"error":{"message":"none","code":"model_not_found"}}`, 0, "", perigee.ClassNotFound},
		{"quota", 429, `{"error":{"message":"q","code":"insufficient_quota"}}`, 0, "", perigee.ClassExhausted},
		{"overloaded", 529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, 0, "", perigee.ClassCapacity},
		{"internal", 500, `{"error":{"message":"oh"}}`, 0, "", perigee.ClassUnavailable},
		{"key", 401, `{"error":{"message":"bad key sk-secret-of-perigee"}}`, 403, "upstream p: ", perigee.ClassUnauthenticated},
		{"too long", 400, `{"error":{"message":"prompt is too long: 9 tokens > 8 maximum"}}`, 400, "", perigee.ClassInvalid},
		{"a page", 502, `<html>bad gateway</html>`, 502, "error", perigee.ClassUnavailable},
	} {
		for _, s := range spokenDialects {
			for _, stream := range []bool{true, false} {
				rig := newRelayRig(t, s.provider(t, nil), Options{}, func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
					w.Header().Set("Content-Type", "application/json")
					w.Header().Set("Request-Id", "req_provider")
					w.Header().Set("Retry-After", "77")
					w.WriteHeader(c.status)
					_, _ = io.WriteString(w, c.body)
				})
				resp, got := rig.ask(t, s.path, fmt.Sprintf(s.request, stream), nil)
				if class := resp.Header.Get("X-Perigee-Class"); class != string(c.class) {
					t.Errorf("%s, %s: class %s", c.name, s.dialect, class)
				}
				if c.want != 0 {
					if resp.StatusCode != c.want || got == c.body || !strings.Contains(got, c.words) || strings.Contains(got, "sk-secret") {
						t.Errorf("%s, %s: %d %s", c.name, s.dialect, resp.StatusCode, got)
					}
					continue
				}
				if resp.StatusCode != c.status || got != c.body {
					t.Errorf("%s, %s: %d %s", c.name, s.dialect, resp.StatusCode, got)
				}
				if resp.Header.Get("Request-Id") != "req_provider" || resp.Header.Get("Retry-After") != "77" {
					t.Errorf("%s, %s: %v", c.name, s.dialect, resp.Header)
				}
				if retry := resp.Header.Get("X-Should-Retry"); c.status == 429 && retry != "false" {
					t.Errorf("%s, %s: x-should-retry %q", c.name, s.dialect, retry)
				}
			}
		}
	}
}

// A client of another dialect gets errors and headers of perigee only. A payment that is due is a
// quota that is used up.
func TestTranslatedErrors(t *testing.T) {
	s := spokenDialects[0]
	provider := s.provider(t, nil)
	provider.wire(nil).message = func(*perigee.Request) (message, error) { return message{body: [][]byte{[]byte("{}")}}, nil }
	rig := newRelayRig(t, provider, Options{}, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.Header.Get("Anthropic-Beta") != "" {
			t.Error("a header of another API")
		}
		w.Header().Set("Request-Id", "req_provider")
		w.WriteHeader(http.StatusPaymentRequired)
		_, _ = io.WriteString(w, `{"error":{"message":"pay","code":402}}`)
	})
	for _, other := range spokenDialects[1:] {
		resp, got := rig.ask(t, other.path, fmt.Sprintf(other.request, false), http.Header{"Anthropic-Beta": {"a"}})
		h := resp.Header
		if resp.StatusCode != 429 || h.Get("Retry-After") != "60" || h.Get("X-Should-Retry") != "false" || h.Get("Request-Id") == "req_provider" || !strings.Contains(got, "pay") {
			t.Errorf("%s: %d %v %s", other.dialect, resp.StatusCode, h, got)
		}
	}
}

// Credit does not come back by itself, but a quota with a time does. The headers are the same.
func TestHintsAboutCredit(t *testing.T) {
	const credit, quota = "; add credit at the provider, or add another key or upstream", "; wait until the quota resets, or add another key or upstream"
	for _, c := range []struct {
		status      int
		after, text string
		want, retry string
	}{
		{402, "", "Insufficient Balance", credit, "60"},
		{402, "90", "weekly limit", quota, "90"},
		{400, "", "Your credit balance is too low to access the Anthropic API.", credit, "60"},
		{429, "", "out of quota", quota, "60"},
	} {
		rig := newRelayRig(t, Anthropic(config.Upstream{}), Options{}, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			if c.after != "" {
				w.Header().Set("Retry-After", c.after)
			}
			w.WriteHeader(c.status)
			fmt.Fprintf(w, `{"type":"error","error":{"type":"x","message":%q}}`, c.text)
		})
		resp, got := rig.ask(t, spokenDialects[0].path, fmt.Sprintf(spokenDialects[0].request, false), nil)
		if h := resp.Header; resp.StatusCode != 429 || !strings.Contains(got, strings.TrimRight(c.text, ".")+c.want) ||
			h.Get("Retry-After") != c.retry || h.Get("X-Should-Retry") != "false" {
			t.Errorf("%d %s: %d %v %s", c.status, c.text, resp.StatusCode, h, got)
		}
	}
}

// With barelyLimited, a rate limit without a delay is a quota that is used up.
func TestRateLimitWithoutADelay(t *testing.T) {
	for after, want := range map[string]perigee.Class{"": perigee.ClassExhausted, "9": perigee.ClassRateLimited} {
		s := spokenDialects[2]
		provider := s.provider(t, nil)
		provider.barelyLimited = true
		rig := newRelayRig(t, provider, Options{}, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			if after != "" {
				w.Header().Set("Retry-After", after)
			}
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = io.WriteString(w, `{"type":"error","error":{"type":"rate_limit_error","message":"limit"}}`)
		})
		resp, _ := rig.ask(t, s.path, fmt.Sprintf(s.request, false), nil)
		if class := resp.Header.Get("X-Perigee-Class"); class != string(want) || resp.StatusCode != 429 {
			t.Errorf("%q: %d %s", after, resp.StatusCode, class)
		}
	}
}
