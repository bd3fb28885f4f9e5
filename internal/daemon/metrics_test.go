package daemon_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/simulator"
	"perigee/internal/testing/daemontest"
	"perigee/internal/testing/perigeetest/await"
)

// getMetrics scrapes, and returns the status and the body.
func getMetrics(t *testing.T, g *daemontest.Gateway, authorization string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.URL()+"/metrics", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	resp, err := daemontest.Client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(raw)
}

// awaitMetrics scrapes until all lines are there. A call is counted when it is recorded, which is
// after its answer.
func awaitMetrics(t *testing.T, g *daemontest.Gateway, authorization string, lines ...string) {
	t.Helper()
	await.Until(t, "all of\n"+strings.Join(lines, "\n"), func() bool {
		status, body := getMetrics(t, g, authorization)
		if status != http.StatusOK {
			t.Fatalf("%d: %s", status, body)
		}
		return !slices.ContainsFunc(lines, func(line string) bool { return !strings.Contains("\n"+body, "\n"+line+"\n") })
	})
}

func postFor(t *testing.T, address, body string, header ...string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := daemontest.Client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
}

// With keys, a scrape needs one of them or the admin token. Calls are counted from the first, by
// what answered them.
func TestMetricsOfCalls(t *testing.T) {
	t.Parallel()
	dir := daemontest.DataDir(t)
	g := daemontest.StartIn(t, daemontest.Sources("keys: [{name: laptop, secret: good}]\n", dir), nil)
	for authorization, want := range map[string]int{"": 401, "Bearer wrong": 401, "Bearer good": 200} {
		if status, body := getMetrics(t, g, authorization); status != want {
			t.Errorf("%q: %d, want %d: %s", authorization, status, want, body)
		}
	}
	raw, err := os.ReadFile(filepath.Join(dir, "admin.token"))
	if err != nil {
		t.Fatal(err)
	}
	admin := "Bearer " + strings.TrimSpace(string(raw))
	chat := `{"model":%q,"messages":[{"role":"user","content":"hello"}]}`
	postFor(t, g.URL()+"/v1/chat/completions", fmt.Sprintf(chat, "gemini-3-flash"), "Authorization", "Bearer good")
	postFor(t, g.URL()+"/v1/chat/completions", fmt.Sprintf(chat, "nobody-has-this"), "Authorization", "Bearer good")
	postFor(t, g.URL()+"/v1/messages", "{}", "X-Api-Key", "wrong")
	postFor(t, g.URL()+"/v1/messages", "{", "X-Api-Key", "good")
	daemontest.AskBare(t, http.MethodGet, g.URL()+"/v1/models", "Bearer good")
	awaitMetrics(t, g, admin,
		`perigee_requests_total{class="ok",dialect="openai-chat",model="gemini-3-flash",upstream="simulator"} 1`,
		`perigee_requests_total{class="not_found",dialect="openai-chat",model="other",upstream="simulator"} 1`,
		`perigee_requests_total{class="unauthenticated",dialect="anthropic",model="other",upstream="none"} 1`,
		`perigee_requests_total{class="invalid",dialect="anthropic",model="other",upstream="none"} 1`,
		`perigee_request_seconds_count{dialect="openai-chat",upstream="simulator"} 2`,
		`perigee_first_byte_seconds_count{dialect="openai-chat",upstream="simulator"} 1`,
		`perigee_open_calls 0`,
	)
	if _, body := getMetrics(t, g, admin); strings.Count(body, "\nperigee_requests_total{") != 4 ||
		!strings.Contains(body, `perigee_build_info{goversion="go`) || !strings.Contains(body, `,version="test"} 1`) ||
		!regexp.MustCompile(`perigee_tokens_total\{kind="input",model="gemini-3-flash",upstream="simulator"\} [1-9]`).MatchString(body) {
		t.Errorf("metrics:\n%s", body)
	}
}

// Without keys, a gateway on a loopback address shows its metrics to every program of the machine.
func TestMetricsOfAccounts(t *testing.T) {
	t.Parallel()
	_, url := daemontest.StartSimulator(t, simulator.Options{})
	dir := daemontest.DataDir(t)
	var list []perigee.SignIn
	for i := range 1000 {
		s := daemontest.SignedIn(fmt.Sprintf("user-%d@example.com", i), "project", fmt.Sprintf("refresh-%d", i))
		s.Enabled, s.State = i%10 != 0, perigee.AccountReady
		if i%4 == 1 {
			s.State = perigee.AccountBanned
		}
		list = append(list, s)
	}
	daemontest.SignIn(t, dir, list...)
	g := daemontest.StartIn(t, daemontest.Sources(daemontest.AntigravityConfig(url, ""), dir), nil)
	awaitMetrics(t, g, "",
		`perigee_accounts{state="ready",upstream="gravity"} 650`,
		`perigee_accounts{state="banned",upstream="gravity"} 250`,
		`perigee_accounts{state="disabled",upstream="gravity"} 100`,
		`perigee_accounts{state="signed_out",upstream="gravity"} 0`,
		`perigee_accounts_cooling{upstream="gravity"} 0`,
	)
	if _, body := getMetrics(t, g, ""); strings.Contains(body, "@example.com") || !strings.Contains(body, "perigee_memory_limit_bytes") {
		t.Errorf("metrics:\n%s", body)
	}
}
