package prooftests

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/observe/live"
	"perigee/internal/simulator"
	"perigee/internal/testing/daemontest"
	"perigee/internal/testing/perigeetest/await"
)

// The answer that clients cancel. Its last word is not complete, as in most answers that are
// canceled.
var (
	countedThinking = strings.Split("first-|a plan |and its| last word", "|")
	countedText     = strings.SplitAfter(strings.Repeat("alpha be|ta gamma |del|ta ", 12)+"omega", "|")
)

// A countedSource is an upstream whose answers stop after some chunks.
type countedSource struct {
	name           string
	config         func(provider string) string
	prompt         string
	thinking, text string // what clients get of the answer
}

// countedSources are all kinds of upstreams that answer with chunks of the provider.
func countedSources() []countedSource {
	thinking, text := strings.Join(countedThinking, ""), strings.ReplaceAll(strings.Join(countedText, ""), "|", "")
	gravity := func(provider string) string { return daemontest.AntigravityConfig(provider, "") }
	desk := func(provider string) string {
		return gravity(provider) + "  - {name: desk, kind: langserver, accept_terms_risk: true, binary: simulator, accounts_from: gravity, " +
			"cloud_url: \"" + provider + "\"}\nmodels:\n  routes: [{match: \"*\", to: [desk]}]\n"
	}
	return []countedSource{
		{"gemini", daemontest.OneUpstream, "marked", thinking, text},
		{"antigravity", gravity, "marked", thinking, text},
		{"langserver", desk, "marked", thinking, text},
		{"simulator", func(string) string { return "upstreams: [{name: sim, kind: simulator}]\n" },
			"[[usage: last]] [[chunks: 2]] [[pace: 10h]] [[think: " + text + text + "]]", text, ""},
	}
}

// A countedDialect is a streamed request with a prompt, for a model that thinks.
type countedDialect struct{ path, body string }

var countedDialects = map[perigee.Dialect]countedDialect{
	perigee.DialectGemini: {"/v1beta/models/gemini-3-flash:streamGenerateContent?alt=sse",
		`{"contents":[{"role":"user","parts":[{"text":%q}]}],"generationConfig":{"thinkingConfig":{"includeThoughts":true}}}`},
	perigee.DialectOpenAIChat:      {"/v1/chat/completions", `{"model":"gemini-3-flash","stream":true,"reasoning_effort":"high","messages":[{"role":"user","content":%q}]}`},
	perigee.DialectOpenAIResponses: {"/v1/responses", `{"model":"gemini-3-flash","stream":true,"store":false,"reasoning":{"effort":"high","summary":"auto"},"input":%q}`},
	perigee.DialectAnthropic: {"/v1/messages", `{"model":"gemini-3-flash","stream":true,"max_tokens":9000,"thinking":{"type":"enabled","budget_tokens":2000},` +
		`"messages":[{"role":"user","content":%q}]}`},
}

// A countingProvider is the simulator, except that requests with the marked prompt get the answer
// that clients cancel.
type countingProvider struct{ simulator *simulator.Server }

func (p countingProvider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	if !strings.HasSuffix(r.URL.Path, "treamGenerateContent") || !strings.Contains(string(body), `"marked"`) {
		p.simulator.ServeHTTP(w, r)
		return
	}
	frame := `{"candidates":[{"index":0,"content":{"role":"model","parts":[%s]}}],"modelVersion":"gemini-3-flash","responseId":"r"}`
	if strings.Contains(r.URL.Path, "v1internal") {
		frame = `{"response":` + frame + `,"traceId":"t"}`
	}
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(part string) { _, _ = fmt.Fprintf(w, "data: "+frame+"\r\n\r\n", part) }
	for _, piece := range countedThinking {
		send(fmt.Sprintf(`{"text":%q,"thought":true}`, piece))
	}
	for _, piece := range countedText {
		send(fmt.Sprintf(`{"text":%q}`, strings.TrimSuffix(piece, "|")))
	}
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

// Content counts once, whichever way it takes: clients of all dialects that cancel after the same
// text are recorded with the same usage, and are followed with the same text, for every kind of
// upstream.
func TestContentCountsOnce(t *testing.T) {
	t.Parallel()
	for _, source := range countedSources() {
		t.Run(source.name, func(t *testing.T) {
			t.Parallel()
			provider := countingProvider{daemontest.NewSimulator(t, simulator.Options{AnyToken: true, Accounts: []simulator.Account{
				{Email: "ada@example.com", RefreshToken: "sim-refresh-ada", Project: "sim-project-ada", Tier: "free-tier", Limits: simulator.Limits{FiveHour: -1, Weekly: -1}},
			}})}
			dir := daemontest.DataDir(t)
			daemontest.SignIn(t, dir, daemontest.SignedIn("ada@example.com", "", "sim-refresh-ada"))
			g := daemontest.StartIn(t, daemontest.Sources(source.config(daemontest.Serve(t, provider)), dir), nil)
			thought := perigee.EstimateTokens(len(source.thinking), 0)
			want := counted{thinking: source.thinking, text: source.text, tokens: thought + perigee.EstimateTokens(len(source.text), 0)}
			for dialect, d := range countedDialects {
				if got := countCanceled(t, g, d.path, fmt.Sprintf(d.body, source.prompt)); got != want {
					t.Errorf("%s: got\n%+v, want\n%+v", dialect, got, want)
				}
			}
		})
	}
}

// counted is what is known of a canceled call.
type counted struct {
	thinking, text string // as they are followed
	tokens         int64
}

// countCanceled makes a call, cancels it when the answer stops, and returns what was followed and
// recorded of it.
func countCanceled(t *testing.T, g *daemontest.Gateway, path, body string) (got counted) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
	defer cancel()
	lines := followCalls(ctx, t, g)
	resp := do(ctx, t, http.MethodPost, g.URL()+path, "", body)
	for answer, buffer := "", make([]byte, 4096); !strings.Contains(answer, "omega"); {
		n, err := resp.Body.Read(buffer)
		if answer += string(buffer[:n]); err != nil {
			t.Fatalf("the answer is %s: %v", answer, err)
		}
	}
	_ = resp.Body.Close() // which ends the connection
	own := map[string]bool{}
	for lines.Scan() {
		var line live.Line
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		if c := line.Call; c != nil && c.ClientName == perigee.LanguageServerClient { // a call that the language server makes itself
			own[c.ID] = true
		}
		if own[line.ID] || line.Call != nil && own[line.Call.ID] {
			continue
		}
		switch line.Event {
		case "thinking":
			if got.text != "" {
				t.Errorf("thinking %q follows text", line.Text)
			}
			got.thinking += line.Text
		case "text":
			got.text += line.Text
		case "ended":
			if got.tokens = line.Call.OutputTokens; line.Call.Outcome != perigee.OutcomeCanceled {
				t.Errorf("the call is %s: %s", line.Call.Outcome, line.Error)
			}
			return got
		}
	}
	t.Fatalf("the call is not over: %v", lines.Err())
	return got
}

// followCalls reads the lines of calls as they happen, from now on.
func followCalls(ctx context.Context, t *testing.T, g *daemontest.Gateway) *bufio.Scanner {
	t.Helper()
	resp := do(ctx, t, http.MethodGet, g.URL()+live.Path+"?text=true", daemontest.AdminOf(t, g).Token, "")
	t.Cleanup(func() { _ = resp.Body.Close() })
	lines := bufio.NewScanner(resp.Body)
	if !lines.Scan() || !strings.Contains(lines.Text(), live.Following) {
		t.Fatalf("nothing is followed: %s %v", lines.Text(), lines.Err())
	}
	return lines
}

func do(ctx context.Context, t *testing.T, method, url, token, body string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := daemontest.Client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d %s", url, resp.StatusCode, daemontest.Rest(t, resp))
	}
	return resp
}
