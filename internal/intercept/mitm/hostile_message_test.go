package mitm_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"perigee/internal/testing/perigeetest/await"
)

// TestTrailers passes trailers in both directions, announced or not.
func TestTrailers(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, protocol string) {
		r := newHostileRig(t)
		target := r.server(func(w http.ResponseWriter, req *http.Request) {
			_, _ = io.Copy(io.Discard, req.Body)
			w.Header().Set("Trailer", "X-Announced")
			flushed(w, "body")
			w.Header().Set("X-Announced", req.Trailer.Get("X-Sum"))
			w.Header().Set(http.TrailerPrefix+"X-Late", "late")
		})
		req, _ := http.NewRequest(http.MethodPost, "https://"+target+"/", io.NopCloser(strings.NewReader("body")))
		req.Trailer = http.Header{"X-Sum": {"42"}}
		resp, err := r.client(protocol).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if body, err := io.ReadAll(resp.Body); string(body) != "body" || err != nil {
			t.Errorf("%q, %v", body, err)
		}
		if resp.Trailer.Get("X-Announced") != "42" || resp.Trailer.Get("X-Late") != "late" || resp.Header.Get("X-Announced") != "" {
			t.Errorf("header %v, trailer %v", resp.Header, resp.Trailer)
		}
	})
}

// TestAnswersWithoutBody keeps the length of an answer to HEAD, and the lack of one where there is
// none.
func TestAnswersWithoutBody(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, protocol string) {
		r := newHostileRig(t)
		target := r.server(func(w http.ResponseWriter, req *http.Request) {
			switch req.URL.Path {
			case "/204":
				w.WriteHeader(http.StatusNoContent)
			case "/304":
				w.Header().Set("Etag", `"x"`)
				w.WriteHeader(http.StatusNotModified)
			case "/length":
				w.Header().Set("Content-Length", "123456")
			case "/empty":
				w.Header().Set("Content-Length", "0")
			}
		})
		client := r.client(protocol)
		for _, test := range []struct {
			method, path string
			status       int
			length       int64
		}{
			{"HEAD", "/length", 200, 123456}, {"GET", "/empty", 200, 0}, {"HEAD", "/none", 200, -1}, {"GET", "/204", 204, -1}, {"HEAD", "/204", 204, -1},
			{"GET", "/304", 304, -1}, {"HEAD", "/304", 304, -1}, {"GET", "/empty", 200, 0},
		} {
			req, _ := http.NewRequest(test.method, "https://"+target+test.path, nil)
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(test, err)
			}
			body, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			length := resp.ContentLength
			if resp.Header.Get("Content-Length") == "" {
				length = -1
			}
			if resp.StatusCode != test.status || length != test.length || len(body) > 0 || err != nil {
				t.Errorf("%v: status %d, length %d %v, body %q, %v", test, resp.StatusCode, resp.ContentLength, resp.Header, body, err)
			}
		}
	})
}

// TestHeadersThatRepeat keeps each Set-Cookie, their order, and empty values.
func TestHeadersThatRepeat(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, protocol string) {
		r := newHostileRig(t)
		cookies := []string{"a=1; Path=/", "b=2, c=3; Expires=Wed, 21 Oct 2026 07:28:00 GMT", "a=3", ""}
		target := r.server(func(w http.ResponseWriter, req *http.Request) {
			w.Header()["Set-Cookie"] = cookies
			w.Header()["X-Back"] = req.Header["X-Twice"]
		})
		req, _ := http.NewRequest(http.MethodGet, "https://"+target+"/", nil)
		req.Header["X-Twice"] = []string{"one", "", "two, three"}
		resp, err := r.client(protocol).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if !slices.Equal(resp.Header["Set-Cookie"], cookies) || !slices.Equal(resp.Header["X-Back"], req.Header["X-Twice"]) {
			t.Errorf("%q", resp.Header)
		}
	})
}

// TestEarlyHints passes 103 on before the answer.
func TestEarlyHints(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, protocol string) {
		r := newHostileRig(t)
		hints := make(chan string, 9)
		target := r.server(func(w http.ResponseWriter, req *http.Request) {
			for i := range 2 {
				w.Header().Set("Link", fmt.Sprintf("</%d.css>", i))
				w.WriteHeader(http.StatusEarlyHints)
			}
			w.Header().Del("Link")
			<-hints // the client has got the first one
			_, _ = io.WriteString(w, "answer")
		})
		var links []string
		req, _ := http.NewRequest(http.MethodGet, "https://"+target+"/", nil)
		trace := &httptrace.ClientTrace{Got1xxResponse: func(status int, header textproto.MIMEHeader) error {
			links = append(links, header.Get("Link"))
			hints <- ""
			return nil
		}}
		resp, err := r.client(protocol).Do(req.WithContext(httptrace.WithClientTrace(req.Context(), trace)))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if body, err := io.ReadAll(resp.Body); string(body) != "answer" || err != nil || resp.Header.Get("Link") != "" {
			t.Errorf("%q, %v, %v", body, err, resp.Header)
		}
		if !slices.Equal(links, []string{"</0.css>", "</1.css>"}) {
			t.Errorf("hints %q", links)
		}
	})
}

// TestExpectContinue has the server decide whether it wants a body: "100 Continue" reaches the
// client only if the server reads.
func TestExpectContinue(t *testing.T) {
	synctest.Test(t, testExpectContinue)
}

// testExpectContinue runs in a bubble: after a second without an answer the proxy would send the
// body.
func testExpectContinue(t *testing.T) {
	r := newHostileRig(t, overPipes)
	target := r.server(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/refused" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		body, _ := io.ReadAll(req.Body)
		_, _ = w.Write(append(body, req.Header.Get("Expect")...))
	})
	for path, want := range map[string]string{"/wanted": "HTTP/1.1 100 ", "/refused": "HTTP/1.1 403 "} {
		conn := r.secure(target, "http/1.1")
		_, _ = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n", path, target)
		head := readHead(t, conn)
		if !strings.HasPrefix(head, want) {
			t.Errorf("%s: %q", path, head)
		}
		if strings.Contains(head, "Connection: close") {
			continue // a client that has not sent the body may send nothing else
		}
		_, _ = io.WriteString(conn, "body")
		if path == "/refused" {
			_, _ = fmt.Fprintf(conn, "POST /second HTTP/1.1\r\nHost: %s\r\nContent-Length: 4\r\n\r\nbody", target)
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if body, err := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK || !strings.HasPrefix(string(body), "body") || err != nil {
			t.Errorf("%s: status %d, %q, %v", path, resp.StatusCode, body, err)
		}
	}
}

const upgradeHead = "GET /chat HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"

// TestUpgrade has both sides send data together with their heads, before they know what the other
// one says.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	r := newHostileRig(t)
	target := r.rawServer([]string{"http/1.1"}, func(conn net.Conn) {
		in := bufio.NewReader(conn)
		req, err := http.ReadRequest(in)
		if err != nil || req.Header.Get("Upgrade") != "websocket" || req.Header.Get("Sec-Websocket-Key") == "" {
			t.Errorf("%v, %v", req, err)
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nX-Kept: yes\r\n\r\nfrom the server")
		_, _ = io.Copy(conn, in)
	})
	conn := r.secure(target, "http/1.1")
	_, _ = io.WriteString(conn, upgradeHead+"from the client")
	if head := readHead(t, conn); !strings.HasPrefix(head, "HTTP/1.1 101 ") || !strings.Contains(head, "\r\nX-Kept: yes\r\n") {
		t.Errorf("%q", head)
	}
	for _, text := range []string{"from the serverfrom the client", "\x00\xff more", strings.Repeat("x", 1<<20)} {
		if !strings.HasPrefix(text, "from") {
			go func() { _, _ = io.WriteString(conn, text) }()
		}
		got := make([]byte, len(text))
		if _, err := io.ReadFull(conn, got); err != nil || string(got) != text {
			t.Fatalf("%.40q, %v", got, err)
		}
	}
	_ = conn.CloseWrite()
	if rest, err := io.ReadAll(conn); len(rest) > 0 || err != nil {
		t.Errorf("at the end: %q, %v", rest, err)
	}
}

// TestUpgradeRefused has the server answer like to any other request. The connection stays in use.
func TestUpgradeRefused(t *testing.T) {
	t.Parallel()
	r := newHostileRig(t)
	target := r.server(func(w http.ResponseWriter, req *http.Request) { http.Error(w, "no", http.StatusForbidden) })
	conn := r.secure(target, "http/1.1")
	in := bufio.NewReader(conn)
	for range 2 {
		_, _ = io.WriteString(conn, upgradeHead)
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(resp.Body); resp.StatusCode != http.StatusForbidden || string(body) != "no\n" || err != nil {
			t.Errorf("status %d, %q, %v", resp.StatusCode, body, err)
		}
	}
}

// TestUpgradeCut has one side vanish after the protocol was changed. The other side is told, and
// nothing stays open.
func TestUpgradeCut(t *testing.T) {
	t.Run("client", func(t *testing.T) {
		r := newHostileRig(t)
		left := make(chan struct{})
		target := r.rawServer([]string{"http/1.1"}, func(conn net.Conn) {
			switchProtocol(conn)
			_, _ = io.Copy(io.Discard, conn)
			close(left)
		})
		conn := r.secure(target, "http/1.1")
		_, _ = io.WriteString(conn, upgradeHead)
		readHead(t, conn)
		reset(conn.NetConn())
		await.Receive(t, left, "the end for the server")
	})
	t.Run("server", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newHostileRig(t, overPipes)
			conn := r.secure(r.rawServer([]string{"http/1.1"}, switchProtocol), "http/1.1")
			_, _ = io.WriteString(conn, upgradeHead)
			readHead(t, conn)
			_, _ = io.Copy(io.Discard, conn)
			time.Sleep(15 * time.Minute) // the time of silence, in which the client could send
			synctest.Wait()
			if n := r.listener.counts.open.Load(); n > 0 {
				t.Error("the connection stays open because the client keeps it open")
			}
		})
	})
}

// switchProtocol reads a request and answers it with 101.
func switchProtocol(conn net.Conn) {
	if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	}
}

// TestPartsPassAtOnce has a server send parts of one byte and of 4 MB, with pauses. Each reaches
// the client before the next is sent.
func TestPartsPassAtOnce(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, protocol string) {
		for _, kind := range []string{"text/event-stream", "application/json", "application/connect+proto", ""} {
			r := newHostileRig(t)
			parts := [][]byte{[]byte("d"), []byte("ata: x\r\n\r"), []byte("\n"), bytes.Repeat([]byte("y"), 4<<20), {0}}
			next := make(chan struct{})
			target := r.server(func(w http.ResponseWriter, req *http.Request) {
				w.Header()["Content-Type"] = []string{kind}
				flushed(w, "")
				for _, part := range parts {
					select {
					case <-next:
						flushed(w, string(part))
					case <-req.Context().Done():
						return
					}
				}
			})
			resp, err := r.client(protocol).Get("https://" + target + "/")
			if err != nil {
				t.Fatal(err)
			}
			for _, part := range parts {
				await.Send(t, next, struct{}{}, "the server takes the next part")
				got := make([]byte, len(part))
				if _, err := io.ReadFull(resp.Body, got); err != nil || !bytes.Equal(got, part) {
					t.Fatalf("%s: %.20q, %v", kind, got, err)
				}
			}
			if rest, err := io.ReadAll(resp.Body); len(rest) > 0 || err != nil {
				t.Errorf("%s: at the end %q, %v", kind, rest, err)
			}
			_ = resp.Body.Close()
		}
	})
}
