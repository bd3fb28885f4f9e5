package prooftests

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"perigee/internal/testing/daemontest"
	"perigee/internal/testing/perigeetest"
	"perigee/internal/testing/perigeetest/await"
)

// A stream that has begun needs no more of its request: not the body, not the prompt, and not what
// was written to the provider. Agents keep hundreds of streams open with megabytes of history
// behind each.
func TestIdleStreamKeepsNothingOfItsRequest(t *testing.T) {
	text := strings.Repeat(`Read \"the file\" first.\n`, 40_000)
	chat := `{"model":"gemini-3-flash","stream":true,"messages":[{"role":"user","content":"` + text + `"}]}`
	for _, test := range []struct {
		name, path, body string
		kept             int // bodies that a stream may keep
	}{
		{"Gemini", "/v1beta/models/gemini-3-flash:streamGenerateContent?alt=sse", `{"contents":[{"role":"user","parts":[{"text":"` + text + `"}]}]}`, 0},
		{"Chat", "/v1/chat/completions", chat, 0},
		{"Messages", "/v1/messages", `{"max_tokens":1000,` + chat[1:], 0},
		{"Messages with stop sequences", "/v1/messages", `{"max_tokens":1000,"stop_sequences":["END"],` + chat[1:], 0},
		{"Responses", "/v1/responses", `{"model":"gemini-3-flash","stream":true,"store":false,"input":"` + text + `"}`, 0},
		{"Responses, stored", "/v1/responses", `{"model":"gemini-3-flash","stream":true,"input":"` + text + `"}`, 1},
	} {
		for _, kind := range []string{"gemini", "antigravity"} {
			t.Run(test.name+" to "+kind, func(t *testing.T) {
				if test.name != "Chat" || kind != "gemini" {
					perigeetest.Slow(t)
				}
				url := daemontest.Serve(t, http.HandlerFunc(oneChunk))
				text := "upstreams: [{name: provider, kind: gemini, keys: [any], url: '" + url + "'}]"
				dir := daemontest.DataDir(t)
				if kind == "antigravity" {
					daemontest.SignIn(t, dir, daemontest.SignedIn("ada@example.com", "ada-project", "refresh-of-ada"))
					text = daemontest.AntigravityConfig(url, "")
				}
				g := daemontest.StartIn(t, daemontest.Sources(text, dir), nil)
				beginStream(t, g.URL()+test.path, test.body) // what is made once for all streams
				before := heap()
				const streams = 8
				for range streams {
					beginStream(t, g.URL()+test.path, test.body)
				}
				limit := test.kept*len(test.body)*5/4 + len(test.body)/3
				// Traces are written after the answer has begun, and each body is kept until then.
				await.Until(t, fmt.Sprintf("at most %d KB for each stream after a request of %d KB", limit>>10, len(test.body)>>10), func() bool {
					return (heap()-before)/streams <= limit
				})
				if open := g.Daemon.Active(); open != streams+1 {
					t.Errorf("%d of %d streams are open", open, streams+1)
				}
			})
		}
	}
}

// oneChunk is a provider of both kinds that begins an answer and does not go on.
func oneChunk(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	if !strings.Contains(r.URL.Path, "streamGenerateContent") {
		_, _ = io.WriteString(w, `{"access_token":"access-of-ada","token_type":"Bearer","expires_in":3599}`)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = fmt.Fprint(w, `data: {"candidates":[{"content":{"role":"model","parts":[{"text":"Hello there."}]}}]}`+"\r\n\r\n")
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

// beginStream asks, and leaves the answer open behind its first text until the test ends.
func beginStream(t *testing.T, url, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	client := http.Client{Transport: daemontest.Client.Transport} // without a limit, at which the stream would end
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	for lines := bufio.NewScanner(resp.Body); ; {
		if !lines.Scan() {
			t.Fatalf("%s without a text: %v", resp.Status, lines.Err())
		}
		if strings.Contains(lines.Text(), "Hello") {
			return
		}
	}
}

// heap is how many bytes are in use. Pools keep what they have for two collections, and a request
// is released only after its first content was sent, so it waits until the number no longer falls.
func heap() int {
	least := uint64(1 << 62)
	for quiet := 0; quiet < 10; quiet++ {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		if m.HeapAlloc < least-least/100 {
			least, quiet = m.HeapAlloc, 0
		}
	}
	return int(least)
}
