package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"perigee/bench/internal/measure"
)

// The same two words, as four dialects and gateways with habits of their own write them.
func TestSpokenTextInEveryDialect(t *testing.T) {
	for name, answer := range map[string]string{
		"Gemini, with a thought": `data: {"candidates":[{"content":{"parts":[{"text":"hm","thought":true},{"text":"a – "}]}}]}` + "\r\n\r\n" +
			`data: {"candidates": [{"content": {"parts": [{"text": "b"}]},"finishReason": "STOP"}]}` + "\r\n\r\n",
		"Chat": `data: {"choices":[{"delta":{"role":"assistant","content":"a – ","tool_calls":null}}]}` + "\n\n" +
			`data: {"choices":[{"delta":{"content":"b"}}]}` + "\n\n" + `data: {"choices":[],"usage":{}}` + "\n\ndata: [DONE]\n\n",
		"Responses": "event: response.created\n" + `data: {"type":"response.created","response":{}}` + "\n\n: quiet\n\n" +
			`data: {"type":"response.output_text.delta","delta":"a \u2013 "}` + "\n\n" +
			`data:{"type":"response.output_text.delta","delta":"b"}` + "\n\n" + `data: {"type":"response.output_text.done","text":"a – b"}` + "\n\n",
		"Messages": `data: {"type":"content_block_start","content_block":{"type":"text","text":""}}` + "\n\n\n" +
			`data: {"type":"content_block_delta","delta":{"type":"thinking_delta","thinking":"hm"}}` + "\n\n\n" +
			`data: {"type":"content_block_delta","delta":{"type":"text_delta","text":"a – b"}}` + "\n\n" +
			`data: {"type":"message_delta","delta":{"stop_reason":"end_turn"}}` + "\n\n",
	} {
		if text, err := spokenText([]byte(answer)); text != "a – b" || err != nil {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	if _, err := spokenText([]byte("data: {broken\n\n")); err == nil {
		t.Error("no error for an event that is not JSON")
	}
}

func TestProviderTextBeginsAsClientsExpect(t *testing.T) {
	if !strings.HasPrefix(providerText, firstWords) || len(providerText) < 500 {
		t.Errorf("%q", providerText)
	}
}

func TestOnlyTheProvidersTextCounts(t *testing.T) {
	whole := bytes.Join(answerChunks, nil)
	d := gemini.beside("/elsewhere")
	if err := d.check(whole); err != nil || d.path != "/elsewhere" || gemini.free {
		t.Errorf("%v, at %s; the dialect itself is free: %v", err, d.path, gemini.free)
	}
	respaced := bytes.ReplaceAll(whole, []byte(`": `), []byte(`":`))
	if err := d.check(respaced); err != nil {
		t.Errorf("other spaces: %v", err)
	}
	for name, bad := range map[string][]byte{
		"one letter differs": bytes.Replace(whole, []byte("body"), []byte("bodi"), 1),
		"a chunk is missing": bytes.Join(answerChunks[1:], nil),
		"no end":             bytes.ReplaceAll(whole, []byte(`"STOP"`), []byte(`null`)),
		"nothing":            nil,
	} {
		if d.check(bad) == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestErrorsFitIntoATable(t *testing.T) {
	if got := oneLine(fmt.Errorf("status 500:\n a | b")); got != "status 500: a / b" {
		t.Errorf("%q", got)
	}
	if got := oneLine(fmt.Errorf("%s", strings.Repeat("ö", 1000))); len([]rune(got)) > 250 {
		t.Errorf("%d letters", len([]rune(got)))
	}
}

func TestPeersAreConfiguredForTheProvider(t *testing.T) {
	for _, p := range peers {
		dir := t.TempDir()
		args, err := p.configure(dir, "4321", "http://127.0.0.1:1234")
		if err != nil {
			t.Fatal(err)
		}
		files, _ := filepath.Glob(filepath.Join(dir, "*"))
		all := strings.Join(args, " ")
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(file, ".json") && !json.Valid(text) {
				t.Errorf("%s: %s is not JSON:\n%s", p.name, filepath.Base(file), text)
			}
			all += string(text)
		}
		for _, part := range []string{"http://127.0.0.1:1234", "4321", peerKey, quickModel} {
			if !strings.Contains(all, part) {
				t.Errorf("%s: no %s in\n%s", p.name, part, all)
			}
		}
		if strings.Contains(all, "%!") {
			t.Errorf("%s: %s", p.name, all)
		}
	}
}

// fakeProcess is a server of this test, which is its own process.
func fakeProcess(t *testing.T, h http.HandlerFunc) *measure.Process {
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return measure.Self(strings.TrimPrefix(server.URL, "http://"))
}

func TestPeerWithAnotherAnswerIsLeftOut(t *testing.T) {
	if _, err := os.Stat("/proc/self/schedstat"); err != nil {
		t.Skip("what a process used is read from /proc")
	}
	right := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = w.Write(bytes.Join(answerChunks, nil))
	}
	wrong := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = w.Write(bytes.Join(answerChunks[:3], nil))
	}
	speaks := func(d *dialect) *peer { return &peer{calls: map[*dialect]peerCall{d: {path: d.path}}} }
	b := &bench{plan: plan{rounds: 1, peerTurn: time.Millisecond}, provider: fakeProcess(t, right)}
	b.peers.gateways = []*gateway{
		{name: "perigee", process: fakeProcess(t, right)},
		{name: "good", peer: speaks(gemini), process: fakeProcess(t, right)},
		{name: "bad", peer: speaks(gemini), process: fakeProcess(t, wrong)},
		{name: "other", peer: speaks(chat), process: fakeProcess(t, right)},
		{name: "unbuilt", peer: speaks(gemini), trouble: "go build: no"},
	}
	c, err := b.comparePeers(t.Context(), gemini)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.measured) != 2 || len(c.cell.rounds) != 1 || len(c.cell.rounds[0]) != 3 {
		t.Errorf("measured %v in %d rounds", c.measured, len(c.cell.rounds))
	}
	for i, want := range map[int]string{2: "not the provider's", 3: "does not serve", 4: "go build: no"} {
		if g := b.peers.gateways[i]; !strings.Contains(c.void[g], want) {
			t.Errorf("%s: %q, want %q", g.name, c.void[g], want)
		}
	}
	b.peers.gateways[0].process = fakeProcess(t, wrong)
	if _, err := b.comparePeers(t.Context(), gemini); err == nil {
		t.Error("no error though perigee gives another answer")
	}
}

// goodPeerReport has one peer that was measured and one that was not.
func goodPeerReport() *peerReport {
	r := &peerReport{machine: "a machine", gateways: []*gateway{
		{name: "perigee", binary: 20 << 20, resident: 27 << 20},
		{name: "CLIProxyAPI", version: "v1", peer: peers[0], binary: 38 << 20, resident: 40 << 20},
		{name: "bifrost", version: "v2", peer: peers[1], trouble: "go build: no"},
	}}
	for _, d := range peerDialects {
		c := &peerCell{dialect: d, cell: &cell{size: peerBody, clients: 1}, measured: r.gateways[:2], void: map[*gateway]string{r.gateways[2]: "go build: no"}}
		c.cell.rounds = []round{{
			{first50: 100 * time.Microsecond},
			{first50: 600 * time.Microsecond, cpu: 500 * time.Microsecond},
			{first50: 20100 * time.Microsecond, cpu: 10 * time.Millisecond},
		}}
		r.cells = append(r.cells, c)
	}
	return r
}

func TestPeerPromisesAreJudged(t *testing.T) {
	measured := func(r *peerReport) { // bifrost as well, and at twice perigee's cost and a bit
		r.gateways[2].trouble = ""
		for _, c := range r.cells {
			c.measured, c.void = r.gateways, nil
			c.cell.rounds[0] = append(c.cell.rounds[0], turn{first50: 1200 * time.Microsecond, cpu: 1100 * time.Microsecond})
		}
	}
	for name, test := range map[string]struct {
		change func(*peerReport)
		broken bool
		line   string
	}{
		"kept": {func(*peerReport) {}, false, "| CPU against CLIProxyAPI, Chat, 100 KB | ≤ 0.10 | 0.05 | kept |"},
		"open": {func(*peerReport) {}, false, "| CPU against bifrost, Messages, 100 KB | ≤ 0.50 | not measured | open |"},
		"costly": {func(r *peerReport) { r.cells[1].cell.rounds[0][1].cpu = 2 * time.Millisecond }, true,
			"| CPU against CLIProxyAPI, Responses, 100 KB | ≤ 0.10 | 0.20 | **broken** |"},
		"costly where nothing is translated": {func(r *peerReport) { r.cells[3].cell.rounds[0][1].cpu = 2 * time.Millisecond }, false, "kept"},
		"twice as quick":                     {measured, false, "| added time to first event against bifrost, Gemini, 100 KB | ≤ 0.50 | 0.45 | kept |"},
		"not twice as quick": {func(r *peerReport) {
			measured(r)
			r.cells[0].cell.rounds[0][1].first50 = time.Millisecond
		}, true, "| added time to first event against bifrost, Chat, 100 KB | ≤ 0.50 | 0.82 | **broken** |"},
	} {
		t.Run(name, func(t *testing.T) {
			r := goodPeerReport()
			test.change(r)
			if text := r.markdown(); r.broken() != test.broken || !strings.Contains(text, test.line) {
				t.Errorf("broken: %v; want %q in\n%s", r.broken(), test.line, text)
			}
		})
	}
}

func TestPeerReportHasNoFiguresOfWhoWasNotMeasured(t *testing.T) {
	text := goodPeerReport().markdown()
	for _, line := range []string{
		"| Chat | perigee | 0.60 | 0.00 | 0.50 | 0.00 | 0.00 | 500 | 1 |",
		"| Chat | CLIProxyAPI v1 | 20.10 | 0.00 | 20.00 | 0.00 | 0.00 | 10000 | 20.0 |",
		"| Chat | bifrost v2 | not measured | – | – | – | – | – | – |",
		"| CLIProxyAPI | " + peers[0].module + "@v1 | 40.0 | 38.0 | – |",
		"| bifrost | " + peers[1].module + "@v2 | – | – | go build: no |",
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no %q in\n%s", line, text)
		}
	}
}
