package daemontest

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"perigee/internal/testing/perigeetest/await"
)

// AskBare makes a request without a body, and returns what comes back.
func AskBare(t *testing.T, method, address, authorization string) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, address, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	resp, err := Client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// Request makes a request with a key and returns the answer's status and body.
func (g *Gateway) Request(t *testing.T, method, path, key, body string) (status int, answer string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, g.URL()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := Client.Do(req)
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

// Dial connects to a daemon until the test ends.
func Dial(t *testing.T, g *Gateway) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(g.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(await.Limit))
	return conn
}

// PostJSON posts a body and returns when the head of the answer is there.
func PostJSON(t *testing.T, g *Gateway, path, body string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.URL()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := Client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// Send posts a body and returns the answer, which must be good.
func Send(t *testing.T, g *Gateway, path, body string) map[string]any {
	t.Helper()
	resp := PostJSON(t, g, path, body)
	raw := Rest(t, resp)
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("got status %d: %s\nto %s", resp.StatusCode, raw, body)
	}
	var answer map[string]any
	if err := json.Unmarshal([]byte(raw), &answer); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	return answer
}
