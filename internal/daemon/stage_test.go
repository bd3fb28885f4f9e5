package daemon_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"perigee/internal/perigeetest/await"
)

const (
	firstEvent = `{"candidates":[{"content":{"parts":[{"text":"one"}],"role":"model"},"index":0}]}`
	lastEvent  = `{"candidates":[{"content":{"parts":[{"text":"two"}],"role":"model"},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":2,"candidatesTokenCount":3,"totalTokenCount":5}}`
)

// A stage is a provider that streams one event to every caller, and the last one when the test says so.
type stage struct {
	URL   string
	begun chan struct{} // a call has got its first event
	goOn  chan struct{} // closed: calls may end
	gone  chan struct{} // a call was given up before that
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{begun: make(chan struct{}, 1000), goOn: make(chan struct{}), gone: make(chan struct{}, 1000)}
	s.URL = serve(t, http.HandlerFunc(s.answer))
	return s
}

func (s *stage) answer(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = fmt.Fprintf(w, "data: %s\r\n\r\n", firstEvent)
	_ = http.NewResponseController(w).Flush()
	tell(s.begun)
	select {
	case <-s.goOn:
		_, _ = fmt.Fprintf(w, "data: %s\r\n\r\n", lastEvent)
	case <-r.Context().Done():
		tell(s.gone)
	}
}

// tell sends without waiting for a receiver.
func tell(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// config is a configuration with the stage as its only upstream.
func (s *stage) config(more string) string { return oneUpstream(s.URL) + more }

func oneUpstream(url string) string {
	return "upstreams:\n  - {name: studio, kind: gemini, url: \"" + url + "\", keys: [studio-key]}\n"
}

// client keeps no connections, so that none is left when the test ends.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: await.Limit}

const question = `{"contents":[{"parts":[{"text":"Hi"}]}]}`

// ask sends a request and returns when the head of the answer is there.
func ask(t *testing.T, g *gateway, method, key string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.URL()+"/v1beta/models/gemini-2.5-flash:"+method, strings.NewReader(question))
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("X-Goog-Api-Key", key)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

const streaming = "streamGenerateContent?alt=sse"

// openStream asks for a stream and returns when its first event has come.
func openStream(t *testing.T, g *gateway, key string) *http.Response {
	t.Helper()
	resp := ask(t, g, streaming, key)
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("got status %d: %s", resp.StatusCode, rest(t, resp))
	}
	want := "data: " + firstEvent + "\r\n\r\n"
	got := make([]byte, len(want))
	if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != want {
		t.Fatalf("the first event is %q (%v)", got, err)
	}
	return resp
}

// rest reads what is still to come of an answer.
func rest(t *testing.T, resp *http.Response) string {
	t.Helper()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Errorf("the answer broke off after %q: %v", body, err)
	}
	_ = resp.Body.Close()
	return string(body)
}

// status asks and returns the status of the answer.
func status(t *testing.T, g *gateway, method, key string) int {
	t.Helper()
	resp := ask(t, g, method, key)
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return resp.StatusCode
}
