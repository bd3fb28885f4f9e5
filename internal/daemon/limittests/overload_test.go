package limittests

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"perigee/internal/daemon"
	"perigee/internal/testing/daemontest"
	"perigee/internal/testing/perigeetest/await"
)

// dialRaw opens a connection to the gateway and writes a text.
func dialRaw(t *testing.T, g *daemontest.Gateway, text string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(g.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(await.Limit)); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.WriteString(conn, text) }() // the gateway may close the connection meanwhile
	return conn
}

func readRaw(t *testing.T, r *bufio.Reader) (*http.Response, string) {
	t.Helper()
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

const (
	healthCall = "GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
	halfHead   = "GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Half: "
)

func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	stage := daemontest.NewStage(t)
	g, book, write := daemontest.Follow(t, stage.Config("limits: {connections: 3}\n"))
	var open []net.Conn
	for range 3 {
		open = append(open, dialRaw(t, g, halfHead))
	}
	beyond := bufio.NewReader(dialRaw(t, g, healthCall))
	resp, body := readRaw(t, beyond)
	if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" || resp.Header.Get("X-Perigee-Class") != "capacity" ||
		!resp.Close || !strings.Contains(body, "limits.connections") {
		t.Errorf("the fourth connection got %d %v %q", resp.StatusCode, resp.Header, body)
	}
	if _, err := beyond.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("the fourth connection is still open: %v", err)
	}

	// The owner's commands have a socket of their own.
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", daemon.SocketPath(g.Config))
	}}
	owner, err := (&http.Client{Transport: transport}).Get("http://perigee/health")
	if err != nil {
		t.Fatal(err)
	}
	if daemontest.Rest(t, owner); owner.StatusCode != http.StatusOK {
		t.Errorf("the owner got %d", owner.StatusCode)
	}

	// A place that becomes free is used again, and an idle connection makes place for a new one.
	_ = open[0].Close()
	var idle net.Conn
	var idleReader *bufio.Reader
	await.Until(t, "a place to become free", func() bool {
		idle = dialRaw(t, g, healthCall)
		idleReader = bufio.NewReader(idle)
		resp, _ := readRaw(t, idleReader)
		return resp.StatusCode == http.StatusOK
	})
	await.Until(t, "the idle connection to make place", func() bool {
		resp, _ := readRaw(t, bufio.NewReader(dialRaw(t, g, healthCall)))
		return resp.StatusCode == http.StatusOK
	})
	if _, err := idleReader.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("the idle connection is still open: %v", err)
	}

	write(stage.Config("limits: {connections: 0}\n"))
	book.Line(t, "configuration reloaded")
	for range 10 {
		conn := dialRaw(t, g, healthCall)
		if resp, _ := readRaw(t, bufio.NewReader(conn)); resp.StatusCode != http.StatusOK {
			t.Errorf("without a limit a connection got %d", resp.StatusCode)
		}
	}
}

// net/http would read a head of a megabyte before the key is asked for.
func TestHeadsAreBounded(t *testing.T) {
	t.Parallel()
	stage := daemontest.NewStage(t)
	g := daemontest.Start(t, stage.Config("limits: {head: 16KiB}\n"), nil)
	for _, test := range []struct {
		name, head string
		dialect    bool
	}{
		{"unfinished", halfHead + strings.Repeat("x", 900<<10), false},
		{"a little too long", "POST /v1/messages HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\nX-Long: " + strings.Repeat("x", 17<<10) + "\r\n\r\n", true},
		{"much too long", "POST /v1/messages HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\nX-Long: " + strings.Repeat("x", 75<<10) + "\r\n\r\n", true},
	} {
		resp, body := readRaw(t, bufio.NewReader(dialRaw(t, g, test.head)))
		if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge || strings.Contains(body, `"type":"error"`) != test.dialect {
			t.Errorf("%s: %d %s", test.name, resp.StatusCode, body)
		}
	}
	resp, _ := readRaw(t, bufio.NewReader(dialRaw(t, g, halfHead+strings.Repeat("x", 15<<10)+"\r\n\r\n")))
	if resp.StatusCode != http.StatusOK {
		t.Errorf("a head within the limit got %d", resp.StatusCode)
	}
}

// A few thousand heads just below limits.head would take hundreds of megabytes.
func TestHeadsAreBoundedTogether(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "off")
	stage := daemontest.NewStage(t)
	g := daemontest.Start(t, stage.Config("limits: {memory: 64MiB}\n"), nil) // 2 MiB for heads
	closed := make(chan string, 100)
	for range cap(closed) {
		conn := dialRaw(t, g, halfHead+strings.Repeat("x", 60<<10))
		go func() {
			answer, _ := io.ReadAll(conn) // the connection may be reset
			closed <- string(answer)
		}()
	}
	for range 60 { // 36 of 56 KiB fit
		if answer := await.Receive(t, closed, "a connection to be refused"); answer != "" && !strings.HasPrefix(answer, "HTTP/1.1 503 ") {
			t.Errorf("refused with %q", answer)
		}
	}
	for range 10 { // those with ordinary heads are answered
		if resp, _ := readRaw(t, bufio.NewReader(dialRaw(t, g, healthCall))); resp.StatusCode != http.StatusOK {
			t.Errorf("an ordinary request got %d", resp.StatusCode)
		}
	}
}

// The heads of requests on one connection do not add up.
func TestHeadsOfOneConnection(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "off")
	stage := daemontest.NewStage(t)
	g := daemontest.Start(t, stage.Config("limits: {memory: 64MiB}\n"), nil)
	call := "GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Long: " + strings.Repeat("x", 60<<10) + "\r\n\r\n"
	conn := dialRaw(t, g, "")
	reader := bufio.NewReader(conn)
	for i := range 100 {
		if _, err := io.WriteString(conn, call); err != nil {
			t.Fatal(err)
		}
		if resp, _ := readRaw(t, reader); resp.StatusCode != http.StatusOK {
			t.Fatalf("request %d got %d", i, resp.StatusCode)
		}
	}
}

// hugeProvider answers with 200 MB of text, or as much of it as is read.
func hugeProvider(t *testing.T, asked, sent *atomic.Int64) string {
	piece := strings.Repeat("all work and no play ", 50_000)
	return daemontest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
	g := daemontest.Start(t, fmt.Sprintf("limits: {memory: 64MiB}\nupstreams:\n  - {name: one, kind: gemini, url: %q, keys: [k]}\n  - {name: two, kind: gemini, url: %q, keys: [k]}\n", url, url), nil)
	for path, body := range map[string]string{
		"/v1/chat/completions": `{"model":"gemini-2.5-flash","messages":[{"role":"user","content":"hello"}]}`,
		"/v1/messages":         `{"model":"gemini-2.5-flash","max_tokens":9,"messages":[{"role":"user","content":"hello"}]}`,
		"/v1/responses":        `{"model":"gemini-2.5-flash","input":"hello"}`,
		"/v1beta/models/gemini-2.5-flash:generateContent": `{"contents":[{"role":"user","parts":[{"text":"hello"}]}]}`,
	} {
		before := asked.Load()
		resp, err := daemontest.Client.Post(g.URL()+path, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		text := daemontest.Rest(t, resp)
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
	stage := daemontest.NewStage(t)
	close(stage.GoOn)
	g, book, write := daemontest.Follow(t, stage.Config("limits: {memory: 64MiB}\n"))
	announced := "POST /v1beta/models/gemini-2.5-flash:generateContent HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 20971520\r\n\r\n"
	if resp, text := readRaw(t, bufio.NewReader(dialRaw(t, g, announced))); resp.StatusCode != http.StatusRequestEntityTooLarge || !strings.Contains(text, "limits.memory") {
		t.Errorf("with 64 MiB: %d %s", resp.StatusCode, text)
	}
	large := func() (int, string) {
		body := `{"contents":[{"role":"user","parts":[{"text":"` + strings.Repeat("x", 20<<20) + `"}]}]}`
		resp, err := daemontest.Client.Post(g.URL()+"/v1beta/models/gemini-2.5-flash:"+daemontest.Streaming, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, daemontest.Rest(t, resp)
	}
	write(stage.Config("limits: {memory: 512MiB, head: 32KiB}\n"))
	book.Line(t, "configuration reloaded")
	book.Line(t, "need a restart", "settings=limits.head")
	if status, text := large(); status != http.StatusOK {
		t.Errorf("with 512 MiB: %d %s", status, text)
	}
}
