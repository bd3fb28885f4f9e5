package daemon_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"perigee/internal/testing/daemontest"
	"perigee/internal/testing/perigeetest/await"
)

// A call beyond the concurrency of an upstream gets 429 with Retry-After when its wait is over, or
// the answer of the next upstream if there is one. The first_byte of an upstream replaces the
// general limit.
func TestConcurrencyOfAnUpstream(t *testing.T) {
	t.Parallel()
	arrived, answer := make(chan struct{}, 1), make(chan struct{})
	provider := daemontest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		switch {
		case strings.HasPrefix(r.URL.Path, "/hasty"):
			<-r.Context().Done()
		case strings.HasPrefix(r.URL.Path, "/small"):
			arrived <- struct{}{}
			<-answer
		}
		_, _ = fmt.Fprint(w, `{"candidates":[{"content":{"parts":[{"text":"ok"}]},"finishReason":"STOP"}]}`)
	}))
	g := daemontest.Start(t, fmt.Sprintf(`
upstreams:
  - {name: small, kind: gemini, url: "%[1]s/small", keys: [k], concurrency: 1, wait: 0}
  - {name: large, kind: gemini, url: "%[1]s/large", keys: [k]}
  - {name: hasty, kind: gemini, url: "%[1]s/hasty", keys: [k], first_byte: 1ms}
models:
  routes: [{match: alone, to: [small]}, {match: both, to: [small, large]}, {match: late, to: [hasty]}]
`, provider), nil)
	ask := func(model string) string {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.URL()+"/v1beta/models/"+model+":generateContent",
			strings.NewReader(`{"contents":[{"parts":[{"text":"hi"}]}]}`))
		if err != nil {
			return err.Error()
		}
		resp, err := daemontest.Client.Do(req)
		if err != nil {
			return err.Error()
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		h := resp.Header
		return fmt.Sprint(resp.StatusCode, " ", h.Get("X-Perigee-Upstream"), " ", h.Get("X-Perigee-Class"), " ", h.Get("Retry-After"))
	}
	first := make(chan string, 1)
	go func() { first <- ask("alone") }()
	await.Receive(t, arrived, "the first call")
	for model, want := range map[string]string{"alone": "429 small rate_limited 5", "both": "200 large  ", "late": "504 hasty unavailable "} {
		if got := ask(model); got != want {
			t.Errorf("%s: %s, want %s", model, got, want)
		}
	}
	close(answer)
	if got := await.Receive(t, first, "the answer of the first call"); got != "200 small  " {
		t.Errorf("the first call: %s", got)
	}
	if got := ask("both"); got != "200 small  " {
		t.Errorf("after the first call: %s", got)
	}
}
