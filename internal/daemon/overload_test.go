package daemon_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// hugeProvider answers with 200 MB of text, or as much of it as is read.
func hugeProvider(t *testing.T, asked, sent *atomic.Int64) string {
	piece := strings.Repeat("all work and no play ", 50_000)
	return serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"candidates":[{"content":{"role":"model","parts":[{"text":"`)
		for range 200 {
			n, err := io.WriteString(w, piece)
			if sent.Add(int64(n)); err != nil {
				return
			}
		}
		_, _ = io.WriteString(w, `"}]},"finishReason":"STOP"}]}`)
	}))
}

func TestAnswersBeyondTheMemoryAreRefused(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "off") // the limit is the whole test process's
	var asked, sent atomic.Int64
	url := hugeProvider(t, &asked, &sent)
	g := start(t, fmt.Sprintf("limits: {memory: 64MiB}\nupstreams:\n  - {name: one, kind: gemini, url: %q, keys: [k]}\n  - {name: two, kind: gemini, url: %q, keys: [k]}\n", url, url), nil)
	for path, body := range map[string]string{
		"/v1/chat/completions": `{"model":"gemini-2.5-flash","messages":[{"role":"user","content":"hello"}]}`,
		"/v1/messages":         `{"model":"gemini-2.5-flash","max_tokens":9,"messages":[{"role":"user","content":"hello"}]}`,
		"/v1/responses":        `{"model":"gemini-2.5-flash","input":"hello"}`,
		"/v1beta/models/gemini-2.5-flash:generateContent": `{"contents":[{"role":"user","parts":[{"text":"hello"}]}]}`,
	} {
		before := asked.Load()
		resp, err := client.Post(g.URL()+path, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		text := rest(t, resp)
		if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("X-Perigee-Class") != "capacity" || resp.Header.Get("Retry-After") == "" ||
			!strings.Contains(text, "limits.memory") {
			t.Errorf("%s: %d %v %s", path, resp.StatusCode, resp.Header, text)
		}
		if n := asked.Load() - before; n != 1 {
			t.Errorf("%s: the provider was asked %d times", path, n)
		}
	}
	if sent.Load() > 4*60<<20 {
		t.Errorf("%d bytes of four answers were read into 64 MiB", sent.Load())
	}
}

func TestMemoryChangesWithoutRestart(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "off")
	stage := newStage(t)
	close(stage.goOn)
	g, book, write := follow(t, stage.config("limits: {memory: 64MiB}\n"))
	large := func() (int, string) {
		body := `{"contents":[{"role":"user","parts":[{"text":"` + strings.Repeat("x", 20<<20) + `"}]}]}`
		resp, err := client.Post(g.URL()+"/v1beta/models/gemini-2.5-flash:"+streaming, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, rest(t, resp)
	}
	if status, text := large(); status != http.StatusRequestEntityTooLarge || !strings.Contains(text, "limits.memory") {
		t.Errorf("with 64 MiB: %d %s", status, text)
	}
	write(stage.config("limits: {memory: 512MiB, head: 32KiB}\n"))
	book.line(t, "limits.head needs a restart")
	book.line(t, "configuration reloaded")
	if status, text := large(); status != http.StatusOK {
		t.Errorf("with 512 MiB: %d %s", status, text)
	}
}
