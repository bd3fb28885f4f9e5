package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

// Every case asks the provider something that it answers as the case expects.
func TestProviderAnswersEveryCase(t *testing.T) {
	server := quietServer(t)
	server.Start()
	addr := server.Listener.Addr().String()
	for _, c := range benchCases() {
		client, err := dial(t.Context(), addr, newQuestion(c.theirs, c.model, caseSize))
		if err != nil {
			t.Fatal(err)
		}
		if s, err := client.ask(); err != nil || s.first == 0 {
			t.Errorf("%s: %v, first event after %v", c.name, err, s.first)
		}
		client.conn.Close()
	}
}

func TestBodiesOfCases(t *testing.T) {
	for _, c := range []struct {
		dialect    *dialect
		has, lacks string
	}{
		{stored, `"store":true`, `"store":false`}, {chatWhole, `"stream":false`, `"stream":true`}, {responses, `"store":false`, `"store":true`}, {chat, `"stream":true`, `"stream":false`},
	} {
		body := string(agentBody(c.dialect, quickModel, caseSize))
		if len(body) != caseSize || !strings.Contains(body, c.has) || strings.Contains(body, c.lacks) {
			t.Errorf("%s: %d bytes, beginning %.200s", c.dialect.name, len(body), body)
		}
	}
}

func TestAnswersInOnePieceAreChecked(t *testing.T) {
	if err := geminiWhole.check(wholeAnswer); err != nil || !geminiWhole.begun(wholeAnswer, 0) {
		t.Errorf("the provider's own answer: %v", err)
	}
	if half := wholeAnswer[:len(wholeAnswer)/2]; geminiWhole.check(half) == nil || geminiWhole.begun(half, 0) {
		t.Error("half an answer is taken for one")
	}
}

// The gateway answers calls to models itself, in an envelope, and leaves the rest to the simulator.
func TestGatewayLeavesTheRestToTheSimulator(t *testing.T) {
	simulator := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte("simulated " + r.URL.Path)) }))
	defer simulator.Close()
	gateway := newGateway(strings.TrimPrefix(simulator.URL, "http://"))
	for path, want := range map[string]string{
		"/token": "simulated /token",
		"/v1internal:streamGenerateContent?alt=sse": `data: {"response": {"candidates"`,
	} {
		w := httptest.NewRecorder()
		gateway.ServeHTTP(w, httptest.NewRequest("POST", "http://localhost"+path, strings.NewReader("{}")))
		if !strings.HasPrefix(w.Body.String(), want) {
			t.Errorf("%s: %.100s", path, w.Body)
		}
		if n := bytes.Count(w.Body.Bytes(), []byte("data: ")); n != chunkCount && strings.HasPrefix(want, "data") {
			t.Errorf("%d chunks", n)
		}
	}
}

func TestCasesAreJudged(t *testing.T) {
	const us = time.Microsecond
	for name, test := range map[string]struct {
		spoil  func(named func(name string) *turn)
		broken bool
		line   string
	}{
		"good":  {func(func(string) *turn) {}, false, "| CPU for a call against ReverseProxy's, Gemini, streamed | ≤ 2.0 | 1.50 | aim reached |"},
		"aims":  {func(named func(string) *turn) { named("Chat, streamed").cpu = 900 * us }, false, "| CPU for a call against ReverseProxy's, Chat, streamed | ≤ 3.0 | 4.50 | aim not reached |"},
		"rate":  {func(named func(string) *turn) { named("Chat, streamed, 8 at once").rate = 400 }, false, "| calls per second against ReverseProxy's, Chat, streamed, 8 at once | ≥ 0.50 | 0.40 | aim not reached |"},
		"added": {func(named func(string) *turn) { named("Chat, streamed").first50 = 500 * us }, false, "| added time to first event against ReverseProxy's, Chat, streamed | ≤ 3.0 | 4.00 | aim not reached |"},
		"first": {func(named func(string) *turn) { named("Chat, 1 MB").first50 = 600 * us }, false, "| time to first event against ReverseProxy's, Chat, 1 MB | ≤ 2.5 | 3.00 | aim not reached |"},
		"upstream": {func(named func(string) *turn) {
			named("Gemini, streamed, to the Antigravity gateway").first50 = 1600 * us
		}, true,
			"| added time to first event, Gemini, streamed, to the Antigravity gateway | ≤ 1.00 ms | 1.50 ms | **broken** |"},
		"table": {func(func(string) *turn) {}, false, "| Chat, in one piece | 0.15 | 1.5 | 300 | 1.5 | 900 | 0.90 | 30 | 2.0 |"},
	} {
		t.Run(name, func(t *testing.T) {
			r := goodReport()
			r.cases = benchCases()
			for _, c := range r.cases {
				c.peak = [3]int64{proxy: 15 << 20, perigee: 30 << 20}
				c.cell.rounds = []round{{
					direct: {first50: 100 * us}, proxy: {first50: 200 * us, cpu: 200 * us, rate: 1000}, perigee: {first50: 250 * us, cpu: 300 * us, rate: 900},
				}}
			}
			test.spoil(func(name string) *turn {
				i := slices.IndexFunc(r.cases, func(c *benchCase) bool { return c.name == name })
				return &r.cases[i].cell.rounds[0][perigee]
			})
			if text := r.markdown(); r.broken() != test.broken || !strings.Contains(text, test.line) {
				t.Errorf("broken: %v; want %q in\n%s", r.broken(), test.line, text)
			}
		})
	}
}
