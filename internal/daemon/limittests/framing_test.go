package limittests

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"perigee/internal/testing/daemontest"
	"perigee/internal/testing/perigeetest/await"
)

// TestFramingTricks sends requests whose length, host or form is ambiguous, each with a second
// request where another reading of the first would find its body. The second is never answered as a
// request of its own.
func TestFramingTricks(t *testing.T) {
	t.Parallel()
	g := daemontest.Start(t, daemontest.OneUpstream("http://127.0.0.1:1"), nil)
	address := strings.TrimPrefix(g.URL(), "http://")
	const host, hidden = "\r\nHost: 127.0.0.1\r\n", "GET /hidden HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
	for name, text := range map[string]string{
		"length and chunks":             "POST /health HTTP/1.1" + host + "Content-Length: 80\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"two lengths":                   "POST /health HTTP/1.1" + host + "Content-Length: 0\r\nContent-Length: 46\r\n\r\n",
		"a list of lengths":             "POST /health HTTP/1.1" + host + "Content-Length: 0, 46\r\n\r\n",
		"a signed length":               "POST /health HTTP/1.1" + host + "Content-Length: +0\r\n\r\n",
		"a length in hexadecimal":       "POST /health HTTP/1.1" + host + "Content-Length: 0x0\r\n\r\n",
		"chunked twice":                 "POST /health HTTP/1.1" + host + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"another encoding after chunks": "POST /health HTTP/1.1" + host + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
		"a space before the colon":      "POST /health HTTP/1.1" + host + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
		"a folded header":               "POST /health HTTP/1.1" + host + "X: a\r\n Transfer-Encoding: chunked\r\nContent-Length: 46\r\n\r\n",
		"a chunk with a signed length":  "POST /v1/responses HTTP/1.1" + host + "Transfer-Encoding: chunked\r\n\r\n+0\r\n\r\n",
		"a NUL in a header":             "GET /health HTTP/1.1" + host + "X: a\x00b\r\n\r\n",
		"a bare CR in a header":         "GET /health HTTP/1.1" + host + "X: a\rGET /hidden HTTP/1.1\r\n\r\n",
		"two hosts":                     "GET /health HTTP/1.1" + host + "Host: example.com\r\n\r\n",
		"no host":                       "GET /health HTTP/1.1\r\n\r\n",
		"a foreign absolute URI":        "GET http://example.com/v1/models HTTP/1.1" + host + "\r\n",
		"CONNECT":                       "CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n",
		"a tab in the request line":     "GET\t/health HTTP/1.1" + host + "\r\n",
		"HTTP/2 without TLS":            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !strings.Contains(text, "example.com") { // where the first request has a clear end, a second one is a second one
				text += hidden
			}
			said := speak(t, address, text)
			status, _, _ := strings.Cut(strings.TrimPrefix(said, "HTTP/1.1 "), " ")
			if n := strings.Count(said, "HTTP/1.1 "); n != 1 {
				t.Errorf("%d answers: %s", n, said)
			}
			if !strings.HasPrefix(status, "4") && !strings.HasPrefix(status, "5") {
				t.Errorf("status %s: %s", status, said)
			}
		})
	}
}

// TestTraceEchoesNothing sends what must not come back, keys for one.
func TestTraceEchoesNothing(t *testing.T) {
	t.Parallel()
	g := daemontest.Start(t, daemontest.OneUpstream("http://127.0.0.1:1"), nil)
	said := speak(t, strings.TrimPrefix(g.URL(), "http://"), "TRACE /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Api-Key: canary\r\nConnection: close\r\n\r\n")
	if !strings.HasPrefix(said, "HTTP/1.1 405") || strings.Contains(said, "canary") {
		t.Errorf("TRACE is answered with %s", said)
	}
}

// speak sends bytes and returns all that comes back until the server closes the connection, or has
// nothing more to say.
func speak(t *testing.T, address, text string) string {
	t.Helper()
	conn, err := net.DialTimeout("tcp", address, await.Limit)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	_ = conn.(*net.TCPConn).CloseWrite()
	_ = conn.SetReadDeadline(time.Now().Add(await.Limit))
	said, err := io.ReadAll(conn)
	if err != nil && len(said) == 0 {
		t.Fatal(err)
	}
	return string(said)
}
