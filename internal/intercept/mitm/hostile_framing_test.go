package mitm_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"perigee/internal/testing/perigeetest/await"
)

// TestAmbiguousRequests sends requests whose length or form is ambiguous, each followed by a second
// request where another reading of the first would find its body. Either the first is refused, or
// the server sees it in a form that has one reading only. The second one reaches the server only
// where chunks end the first.
func TestAmbiguousRequests(t *testing.T) {
	t.Parallel()
	const hidden = "GET /hidden HTTP/1.1\r\nHost: localhost\r\n\r\n"
	const chunked = "Transfer-Encoding: chunked\r\n"
	tests := []struct {
		name, head, body string
		refused          bool // the server must not see it
		second           bool // the second request is one
	}{
		{"length and chunks", "Content-Length: 44\r\n" + chunked, "0\r\n\r\n", false, true},
		{"chunks and length", chunked + "Content-Length: 44\r\n", "0\r\n\r\n", false, true},
		{"two lengths", "Content-Length: 0\r\nContent-Length: 43\r\n", "", true, false},
		{"a list of lengths", "Content-Length: 0, 43\r\n", "", true, false},
		{"a signed length", "Content-Length: +0\r\n", "", true, false},
		{"a negative length", "Content-Length: -1\r\n", "", true, false},
		{"a length in hexadecimal", "Content-Length: 0x0\r\n", "", true, false},
		{"an unknown encoding", "Transfer-Encoding: xchunked\r\n", "0\r\n\r\n", true, false},
		{"chunked twice", chunked + chunked, "0\r\n\r\n", true, false},
		{"chunked before identity", "Transfer-Encoding: chunked, identity\r\n", "0\r\n\r\n", true, false},
		{"chunked after a vertical tab", "Transfer-Encoding: \vchunked\r\n", "0\r\n\r\n", true, false},
		{"a space before the colon", "Transfer-Encoding : chunked\r\n", "0\r\n\r\n", true, false},
		{"a NUL in a value", "X: a\x00b\r\n", "", true, false},
		{"a NUL in a name", "X\x00: a\r\n", "", true, false},
		{"a bare CR in a value", "X: a\rGET /hidden HTTP/1.1\r\n", "", true, false},
		{"a line without colon", "GET /hidden HTTP/1.1\r\n", "", true, false},
		{"a folded header", "X: a\r\n Transfer-Encoding: chunked\r\nContent-Length: 43\r\n", "", false, false},
		{"bare line feeds", "X: a\nContent-Length: 43\n", "", false, false},
		{"two hosts", "Host: example.com\r\n", "", true, false},
		{"a chunk of a signed length", chunked, "+0\r\n\r\n", false, false},
		{"a chunk of no length", chunked, "\r\n\r\n", false, false},
		{"a chunk of a wrong length", chunked, "2\r\nabc\r\n0\r\n\r\n", false, false},
		{"a chunk length of 65 bits", chunked, "10000000000000000\r\n\r\n", false, false},
		{"a long chunk extension", chunked, "0;" + strings.Repeat("x", 1<<16) + "\r\n\r\n", false, false},
		{"chunk lines with bare line feeds", chunked, "0\n\n", false, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := newHostileRig(t)
			seen := make(chan string, 99)
			target := r.rawServer([]string{"http/1.1"}, answers(hostileOK, seen))
			conn := r.secure(target, "http/1.1")
			_, _ = io.WriteString(conn, "POST /first HTTP/1.1\r\nHost: localhost\r\n"+test.head+"\r\n"+test.body+hidden)
			_ = conn.CloseWrite()
			said, _ := io.ReadAll(conn) // a reset is a refusal too
			if n := strings.Count(string(said), "HTTP/1.1 200"); n > 1 && !test.second || test.refused && n > 0 {
				t.Errorf("%d requests are answered: %s", n, said)
			}
			r.works(target)
			r.drain()
			close(seen)
			if len(seen) == 0 {
				t.Error("the server got no request")
			}
			for got := range seen {
				head, _, _ := strings.Cut(got, "\r\n\r\n")
				lower := strings.ToLower(head)
				if strings.Contains(head, "GET /works") {
					continue
				}
				if test.refused || strings.Contains(head, "GET /hidden") && !test.second || strings.Contains(lower, "\ncontent-length:") && strings.Contains(lower, "\ntransfer-encoding:") ||
					strings.Contains(strings.ReplaceAll(head, "\r\n", ""), "\n") || strings.Contains(head, "\r\n ") {
					t.Errorf("the server got %q", got)
				}
			}
		})
	}
}

// TestOnlyTheTunnelsTargetIsReached has requests in a tunnel name another server in every place
// where HTTP has a name.
func TestOnlyTheTunnelsTargetIsReached(t *testing.T) {
	t.Parallel()
	r := newHostileRig(t)
	other := r.server(func(http.ResponseWriter, *http.Request) { t.Error("a request reached the other server") })
	seen := make(chan string, 99)
	target := r.rawServer([]string{"http/1.1"}, answers(hostileOK, seen))
	for _, head := range []string{
		"GET /x HTTP/1.1\r\nHost: " + other + "\r\n\r\n",
		"GET https://" + other + "/x HTTP/1.1\r\nHost: " + target + "\r\n\r\n",
		"GET https://" + target + "/x HTTP/1.1\r\nHost: " + other + "\r\n\r\n",
		"GET http://" + other + "/x HTTP/1.1\r\nHost: " + other + "\r\n\r\n",
		"GET //" + other + "/x HTTP/1.1\r\nHost: " + target + "\r\n\r\n",
		"GET /x HTTP/1.1\r\nHost: user@" + other + "\r\n\r\n",
		"GET /x HTTP/1.1\r\nHost: \r\n\r\n",
		"GET /x HTTP/1.1\r\nHost: " + target + "\r\nX-Forwarded-Host: " + other + "\r\nForwarded: host=" + other + "\r\n\r\n",
		"CONNECT " + other + " HTTP/1.1\r\nHost: " + other + "\r\n\r\n",
		"OPTIONS * HTTP/1.1\r\nHost: " + other + "\r\n\r\n",
		"GET x HTTP/1.1\r\nHost: " + other + "\r\n\r\n",
	} {
		conn := r.secure(target, "http/1.1")
		_, _ = io.WriteString(conn, head)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Errorf("%q: %v", head, err)
			continue
		}
		if strings.HasPrefix(head, "CONNECT") && resp.StatusCode < 400 {
			t.Errorf("a tunnel in a tunnel: status %d", resp.StatusCode)
		}
		_ = conn.Close()
	}
	if len(seen) < 5 {
		t.Errorf("%d requests reached the target of the tunnel", len(seen))
	}
}

// TestRequestsAreForwardedAsTheyCame compares the bytes that the server reads with those that the
// client has sent.
func TestRequestsAreForwardedAsTheyCame(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"GET /a%2Fb//c/../d/./e?x=%zz&y=1;2|{}^&z=%41%7e+ HTTP/1.1",
		"GET /?%3F=/?:@!$'()*,;== HTTP/1.1",
		"GET /trailing? HTTP/1.1",
		"PURGE //double?a HTTP/1.1",
		"OPTIONS * HTTP/1.1",
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			r := newHostileRig(t)
			seen := make(chan string, 1)
			target := r.rawServer([]string{"http/1.1"}, answers(hostileOK, seen))
			conn := r.secure(target, "http/1.1")
			_, _ = io.WriteString(conn, line+"\r\nHost: "+target+"\r\nX-Canary: a  b\r\nCookie: canary=1; b=2\r\n\r\n")
			if head := readHead(t, conn); !strings.HasPrefix(head, "HTTP/1.1 200 ") {
				t.Fatal(head)
			}
			got := await.Receive(t, seen, "the request")
			if !strings.HasPrefix(got, line+"\r\n") {
				t.Errorf("the server got %q", got)
			}
			lower := strings.ToLower(got)
			for _, added := range []string{"user-agent:", "accept-encoding:", "via:", "forwarded", "content-length:", "transfer-encoding:", "connection:"} {
				if strings.Contains(lower, added) {
					t.Errorf("the request has got a header: %q", got)
				}
			}
			if !strings.Contains(got, "\r\nX-Canary: a  b\r\n") || !strings.Contains(got, "\r\nCookie: canary=1; b=2\r\n") {
				t.Errorf("headers were changed: %q", got)
			}
		})
	}
}

// TestPipelinedRequests sends two requests in one packet. They are answered in their order.
func TestPipelinedRequests(t *testing.T) {
	t.Parallel()
	r := newHostileRig(t)
	target := r.server(func(w http.ResponseWriter, req *http.Request) { _, _ = io.WriteString(w, req.URL.Path) })
	conn := r.secure(target, "http/1.1")
	request := "POST /%d HTTP/1.1\r\nHost: " + target + "\r\nContent-Length: 3\r\n\r\nabc"
	_, _ = fmt.Fprintf(conn, request+request+request, 1, 2, 3)
	in := bufio.NewReader(conn)
	for i := 1; i <= 3; i++ {
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(resp.Body); err != nil || string(body) != fmt.Sprintf("/%d", i) {
			t.Errorf("answer %d is %q, %v", i, body, err)
		}
	}
}

// TestLargeHeaders passes 64 KB in both directions, and refuses what is larger than 1 MiB.
func TestLargeHeaders(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, protocol string) {
		r := newHostileRig(t)
		target := r.server(func(w http.ResponseWriter, req *http.Request) {
			size := len(req.Header.Get("X-Large"))
			if req.URL.Path == "/huge" {
				size = 2 << 20
			}
			w.Header().Set("X-Large", strings.Repeat("y", size))
		})
		get := func(path string, size int) (int, int) {
			req, err := http.NewRequest(http.MethodGet, "https://"+target+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("X-Large", strings.Repeat("x", size))
			resp, err := r.client(protocol).Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			return resp.StatusCode, len(resp.Header.Get("X-Large"))
		}
		if status, size := get("/", 64<<10); status != http.StatusOK || size != 64<<10 {
			t.Errorf("64 KB of headers: status %d with %d bytes", status, size)
		}
		if status, _ := get("/huge", 1); status != http.StatusBadGateway {
			t.Errorf("an answer with 2 MiB of headers: status %d", status)
		}
		r.works(target)
	})
}

// TestHeaderFlood sends a head of more than 1 MiB: to the proxy itself, in a tunnel, and as one
// request with a million headers.
func TestHeaderFlood(t *testing.T) {
	t.Parallel()
	for name, header := range map[string]string{"one header": "X: " + strings.Repeat("x", 3<<20) + "\r\n", "many headers": strings.Repeat("X: y\r\n", 3<<20/6),
		"a long path": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newHostileRig(t)
			target := r.server(func(http.ResponseWriter, *http.Request) { t.Error("the server was reached") })
			line := "GET / HTTP/1.1\r\n"
			if header == "" {
				line = "GET /" + strings.Repeat("x", 3<<20) + " HTTP/1.1\r\n"
			}
			tunnel := r.secure(target, "http/1.1")
			for _, conn := range []io.ReadWriter{tunnel, r.dial()} {
				go func() { _, _ = io.WriteString(conn, line+"Host: "+target+"\r\n"+header+"\r\n") }()
				if head := readHead(t, conn); !strings.HasPrefix(head, "HTTP/1.1 431 ") {
					t.Errorf("status %q", head)
				}
			}
			r.works(target)
		})
	}
}

// TestSlowHeads sends heads a byte at a time, or not to their end. The proxy closes the connection
// when the time for heads is over. Each way has a bubble of its own.
func TestSlowHeads(t *testing.T) {
	for _, where := range []string{"to the proxy", "in a tunnel"} {
		for way, pause := range map[string]time.Duration{"a byte at a time": 20 * time.Millisecond, "silent": time.Hour} {
			t.Run(where+" "+way, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newHostileRig(t, overPipes)
					target := r.server(func(http.ResponseWriter, *http.Request) { t.Error("the server was reached") })
					var conn io.ReadWriter = r.dial()
					if where == "in a tunnel" {
						conn = r.secure(target, "http/1.1")
					}
					closed := make(chan struct{})
					go func() {
						defer close(closed)
						_, _ = io.Copy(io.Discard, conn)
					}()
					began := time.Now()
					_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: "+target+"\r\nX: ")
					for open := true; open; {
						select {
						case <-closed:
							open = false
						case <-time.After(pause):
							if _, err := io.WriteString(conn, "x"); err == nil && time.Since(began) > time.Minute {
								t.Fatal("still open")
							}
						}
					}
					if took := time.Since(began); took < 9*time.Second || took > 11*time.Second {
						t.Errorf("closed after %v", took)
					}
				})
			})
		}
	}
}
