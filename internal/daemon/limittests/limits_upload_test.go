package limittests

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/daemon"
	"perigee/internal/testing/daemontest"
	"perigee/internal/testing/perigeetest"
)

// startUpload announces a body of 60 MB for a path and sends the first bytes of it.
func startUpload(t *testing.T, g *daemontest.Gateway, path, key string) net.Conn {
	t.Helper()
	conn := daemontest.Dial(t, g)
	_, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: %s\r\nContent-Type: application/json\r\nContent-Length: 60000000\r\n\r\n{\"model\":\"", path, key)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// startReading starts an upload that waits until perigee reads its body.
func startReading(t *testing.T, g *daemontest.Gateway, path, key string) {
	t.Helper()
	conn := daemontest.Dial(t, g)
	_, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: %s\r\nExpect: 100-continue\r\nContent-Length: 60000000\r\n\r\n", path, key)
	if err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(conn).ReadString('\n'); !strings.Contains(line, " 100 ") || err != nil {
		t.Fatalf("%s: the body is not read: %q, %v", path, line, err)
	}
	if _, err := conn.Write([]byte(`{"model":"`)); err != nil {
		t.Fatal(err)
	}
}

// answered returns what a connection was answered before its body was complete.
func answered(t *testing.T, conn net.Conn) *http.Response {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("no answer while the body is incomplete: %v", err)
	}
	_ = resp.Body.Close()
	return resp
}

// modelPaths are where models are asked, one for each handler.
var modelPaths = []string{
	"/v1/chat/completions", "/v1/messages", "/v1/messages/count_tokens", "/v1/responses", "/v1/embeddings", "/v1/images/generations",
	"/v1beta/models/gemini-2.5-flash:generateContent", "/v1beta/models/gemini-2.5-flash:countTokens", "/v1beta/models/gemini-2.5-flash:embedContent",
}

// Bodies that are still arriving hold no place of limits.concurrency.
func TestSlowUploadsOfOneKeyDoNotKeepAnotherOut(t *testing.T) {
	t.Parallel()
	stage := daemontest.NewStage(t)
	close(stage.GoOn)
	g := daemontest.Start(t, stage.Config("limits: {concurrency: 4}\nkeys:\n  - {name: a, secret: secret-a}\n  - {name: b, secret: secret-b}\n"), nil)
	for _, path := range modelPaths {
		startReading(t, g, path, "secret-a")
	}
	for range 3 {
		if got := daemontest.Status(t, g, daemontest.Streaming, "secret-b"); got != http.StatusOK {
			t.Errorf("the other key got %d", got)
		}
	}
}

// A key's own limits are applied before its body is read, in each handler.
func TestLimitsOfAKeyAreCheckedBeforeItsBody(t *testing.T) {
	t.Parallel()
	clock := &perigeetest.Clock{}
	for _, path := range modelPaths {
		stage := daemontest.NewStage(t)
		dir := daemontest.DataDir(t)
		spend(t, dir, perigee.Call{ID: "today", Time: clock.Now(), Client: perigee.Client{Key: "spent"}, Usage: perigee.Usage{Input: 100}})
		g := daemontest.StartIn(t, daemontest.Sources(stage.Config(`keys:
  - {name: expired, secret: secret-expired, expires: 2020-01-01T00:00:00Z}
  - {name: spent, secret: secret-spent, tokens_per_day: 100}
  - {name: one, secret: secret-one, concurrency: 1}
  - {name: few, secret: secret-few, rpm: 2}
`), dir), func(o *daemon.Options) { o.Now = clock.Now })
		for key, want := range map[string]int{"secret-expired": 401, "secret-spent": 429} {
			if got := answered(t, startUpload(t, g, path, key)); got.StatusCode != want || !got.Close {
				t.Errorf("%s with %s: %d %v", path, key, got.StatusCode, got.Header)
			}
		}
		for key, allowed := range map[string]int{"secret-one": 1, "secret-few": 2} {
			for range allowed {
				startReading(t, g, path, key)
			}
			if got := answered(t, startUpload(t, g, path, key)); got.StatusCode != http.StatusTooManyRequests {
				t.Errorf("%s with %s: one more is %d", path, key, got.StatusCode)
			}
		}
	}
}

// Where all places are taken, a body is not read at all.
func TestWithoutAPlaceTheBodyIsNotRead(t *testing.T) {
	t.Parallel()
	stage := daemontest.NewStage(t)
	g := daemontest.Start(t, stage.Config("limits: {concurrency: 1}\n"), nil)
	open := daemontest.OpenStream(t, g, "")
	for _, path := range modelPaths {
		if got := answered(t, startUpload(t, g, path, "")); got.StatusCode != http.StatusTooManyRequests {
			t.Errorf("%s: %d", path, got.StatusCode)
		}
	}
	close(stage.GoOn)
	daemontest.Rest(t, open)
}
