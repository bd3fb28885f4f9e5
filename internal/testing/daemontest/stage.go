package daemontest

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"perigee/internal/testing/perigeetest/await"
)

// The events that a stage streams.
const (
	FirstEvent = `{"candidates":[{"content":{"parts":[{"text":"one"}],"role":"model"},"index":0}]}`
	LastEvent  = `{"candidates":[{"content":{"parts":[{"text":"two"}],"role":"model"},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":2,"candidatesTokenCount":3,"totalTokenCount":5}}`
)

// A Stage is a provider that streams one event to every caller, and the last one when
// the test closes GoOn.
type Stage struct {
	URL   string
	Begun chan struct{} // a call has got its first event
	GoOn  chan struct{} // closed: calls may end
	Gone  chan struct{} // a call was given up before that
}

// NewStage starts one.
func NewStage(t *testing.T) *Stage {
	t.Helper()
	s := &Stage{Begun: make(chan struct{}, 1000), GoOn: make(chan struct{}), Gone: make(chan struct{}, 1000)}
	s.URL = Serve(t, http.HandlerFunc(s.answer))
	return s
}

func (s *Stage) answer(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = fmt.Fprintf(w, "data: %s\r\n\r\n", FirstEvent)
	_ = http.NewResponseController(w).Flush()
	Tell(s.Begun)
	select {
	case <-s.GoOn:
		_, _ = fmt.Fprintf(w, "data: %s\r\n\r\n", LastEvent)
	case <-r.Context().Done():
		Tell(s.Gone)
	}
}

// Tell sends without waiting for a receiver.
func Tell(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Config is a configuration with the stage as its only upstream.
func (s *Stage) Config(more string) string { return OneUpstream(s.URL) + more }

// OneUpstream is a configuration with an upstream studio, of the kind gemini.
func OneUpstream(url string) string {
	return "upstreams:\n  - {name: studio, kind: gemini, url: \"" + url + "\", keys: [studio-key]}\n"
}

// Client keeps no connections, so that none is left when the test ends.
var Client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: await.Limit}

// Question is a request in the dialect Gemini.
const Question = `{"contents":[{"parts":[{"text":"Hi"}]}]}`

// Ask sends a request and returns when the head of the answer is there.
func Ask(t *testing.T, g *Gateway, method, key string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.URL()+"/v1beta/models/gemini-2.5-flash:"+method, strings.NewReader(Question))
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("X-Goog-Api-Key", key)
	}
	resp, err := Client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// Streaming is the method for an answer in pieces.
const Streaming = "streamGenerateContent?alt=sse"

// OpenStream asks for a stream and returns when its first event has come.
func OpenStream(t *testing.T, g *Gateway, key string) *http.Response {
	t.Helper()
	resp := Ask(t, g, Streaming, key)
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("got status %d: %s", resp.StatusCode, Rest(t, resp))
	}
	want := "data: " + FirstEvent + "\r\n\r\n"
	got := make([]byte, len(want))
	if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != want {
		t.Fatalf("the first event is %q (%v)", got, err)
	}
	return resp
}

// Rest reads what is still to come of an answer.
func Rest(t *testing.T, resp *http.Response) string {
	t.Helper()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Errorf("the answer broke off after %q: %v", body, err)
	}
	_ = resp.Body.Close()
	return string(body)
}

// Status asks and returns the status of the answer.
func Status(t *testing.T, g *Gateway, method, key string) int {
	t.Helper()
	resp := Ask(t, g, method, key)
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return resp.StatusCode
}
