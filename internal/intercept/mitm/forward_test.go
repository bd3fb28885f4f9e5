package mitm

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"perigee/internal/testing/perigeetest"
	"perigee/internal/testing/perigeetest/await"
)

// eachVersion runs a test with HTTP/1.1 and with HTTP/2 on both sides.
func eachVersion(t *testing.T, test func(t *testing.T, http2 bool)) {
	t.Helper()
	for _, http2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("h2=%v", http2), func(t *testing.T) { test(t, http2) })
	}
}

// eachVersionInABubble runs a test with HTTP/1.1 and with HTTP/2 on both sides, each in a synctest
// bubble.
func eachVersionInABubble(t *testing.T, test func(t *testing.T, http2 bool)) {
	t.Helper()
	eachVersion(t, func(t *testing.T, http2 bool) {
		synctest.Test(t, func(t *testing.T) { test(t, http2) })
	})
}

func get(t testing.TB, client *http.Client, url string) (*http.Response, string) {
	t.Helper()
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

func TestTheEndOfTheClientReachesTheServer(t *testing.T) {
	eachVersion(t, func(t *testing.T, http2 bool) {
		g := newRig(t, nil)
		ended := make(chan struct{}, 1)
		g.server(http2, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			ended <- struct{}{}
		}, "api.example.org")
		client := g.client(http2, false)
		for range 5 {
			ctx, cancel := context.WithCancel(t.Context())
			request, _ := http.NewRequestWithContext(ctx, http.MethodPost, "https://api.example.org/", strings.NewReader("body"))
			resp, err := client.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			cancel()
			await.Receive(t, ended, "the end at the server")
			_ = resp.Body.Close()
		}
	})
}

func TestCancelledStreamsLeaveNothing(t *testing.T) {
	perigeetest.Slow(t)
	eachVersion(t, func(t *testing.T, http2 bool) {
		g := newRig(t, nil)
		g.server(http2, func(w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, "api.example.org")
		client := g.client(http2, false)
		cycle := func() {
			ctx, cancel := context.WithCancel(t.Context())
			request, _ := http.NewRequestWithContext(ctx, http.MethodGet, "https://api.example.org/", nil)
			resp, err := client.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			cancel()
			_ = resp.Body.Close()
		}
		cycle()
		settled := func() (goroutines, files int) { return runtime.NumGoroutine(), openFiles(t) }
		await.Until(t, "nothing is open", func() bool { return g.open() <= 1 })
		goroutines, files := settled()
		for range 200 {
			cycle()
		}
		await.Until(t, "goroutines and files are gone", func() bool {
			now, open := settled()
			return now <= goroutines+3 && open <= files+3
		})
	})
}

func (g *rig) open() int {
	g.proxy.conns.mu.Lock()
	defer g.proxy.conns.mu.Unlock()
	return len(g.proxy.conns.open)
}

// openFiles counts the descriptors of this process; 0 where that is not known.
func openFiles(t testing.TB) int {
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(files)
}

func TestAnswersThatBreakOffDoNotLookComplete(t *testing.T) {
	breaks := map[string]http.HandlerFunc{
		"chunked": func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "half")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		},
		"with a length": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "half")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		},
	}
	for name, handler := range breaks {
		eachVersion(t, func(t *testing.T, http2 bool) {
			g := newRig(t, nil)
			g.server(http2, handler, "api.example.org")
			resp, err := g.client(http2, false).Get("https://api.example.org/")
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if string(body) != "half" || err == nil {
				t.Errorf("%s: %q %v", name, body, err)
			}
		})
	}
}

// To a client of HTTP/1.0 the end of the connection is the end of the answer.
func TestAnswersThatBreakOffResetTheConnectionOfOldClients(t *testing.T) {
	g := newRig(t, nil)
	g.server(false, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "half")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}, "api.example.org")
	c := g.secure("api.example.org", "http/1.1")
	_, _ = io.WriteString(c, "GET / HTTP/1.0\r\nHost: api.example.org\r\n\r\n")
	if all, err := io.ReadAll(c); err == nil {
		t.Errorf("%q ends without an error", all)
	}
}

// secure opens a tunnel to a host and makes the handshake.
func (g *rig) secure(host string, protocols ...string) *tls.Conn {
	g.t.Helper()
	raw := g.dial()
	_, _ = fmt.Fprintf(raw, "CONNECT %s:443 HTTP/1.1\r\nHost: x\r\n\r\n", host)
	resp, err := http.ReadResponse(bufio.NewReaderSize(raw, 16), &http.Request{Method: http.MethodConnect})
	if err != nil || resp.StatusCode != http.StatusOK {
		g.t.Fatal(resp, err)
	}
	config := g.client(false, false).Transport.(*http.Transport).TLSClientConfig.Clone()
	config.ServerName, config.NextProtos = host, protocols
	c := tls.Client(raw, config)
	if err := c.Handshake(); err != nil {
		g.t.Fatal(err)
	}
	return c
}

// The server answers before the request body ends, which it never does.
func TestEarlyAnswers(t *testing.T) {
	eachVersion(t, func(t *testing.T, http2 bool) {
		g := newRig(t, nil)
		g.server(http2, func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).EnableFullDuplex()
			w.Header().Set("Content-Length", "2")
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, "no")
			w.(http.Flusher).Flush()
		}, "api.example.org")
		body, rest := io.Pipe()
		defer func() { _ = rest.Close() }()
		go func() { _, _ = rest.Write([]byte("begin")) }()
		request, _ := http.NewRequest(http.MethodPost, "https://api.example.org/", body)
		resp, err := g.client(http2, false).Do(request)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusForbidden || string(answer) != "no" || err != nil {
			t.Errorf("%s %q %v", resp.Status, answer, err)
		}
	})
}

func TestFullDuplex(t *testing.T) {
	eachVersion(t, func(t *testing.T, http2 bool) {
		g := newRig(t, nil)
		g.server(http2, func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).EnableFullDuplex()
			w.(http.Flusher).Flush()
			lines := bufio.NewScanner(r.Body)
			for lines.Scan() {
				_, _ = fmt.Fprintf(w, "echo %s\n", lines.Text())
				w.(http.Flusher).Flush()
			}
		}, "api.example.org")
		body, out := io.Pipe()
		request, _ := http.NewRequest(http.MethodPost, "https://api.example.org/", body)
		resp, err := g.client(http2, false).Do(request)
		if err != nil {
			t.Fatal(err)
		}
		in := bufio.NewReader(resp.Body)
		for i := range 3 {
			_, _ = fmt.Fprintf(out, "%d\n", i)
			if line, err := in.ReadString('\n'); line != fmt.Sprintf("echo %d\n", i) {
				t.Fatalf("%q %v", line, err)
			}
		}
		_ = out.Close()
		if rest, err := io.ReadAll(in); len(rest) > 0 || err != nil {
			t.Errorf("%q %v", rest, err)
		}
		_ = resp.Body.Close()
	})
}

// What comes after a body that cannot be read is not another request.
func TestNothingIsReadAfterABrokenBody(t *testing.T) {
	g := newRig(t, nil)
	var seen atomic.Int32
	g.server(false, func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			seen.Add(1)
		}
	}, "api.example.org")
	for _, body := range []string{"zz\r\n", "10000000000000000\r\n", "1\nx\n0\n\n"} {
		c := g.secure("api.example.org", "http/1.1")
		_, _ = io.WriteString(c, "POST /first HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"+body+"GET /second HTTP/1.1\r\nHost: x\r\n\r\n")
		all, _ := io.ReadAll(c)
		if n := strings.Count(string(all), "HTTP/1.1 "); n != 1 || strings.HasPrefix(string(all), "HTTP/1.1 200") {
			t.Errorf("%q: %q", body, all)
		}
	}
	if seen.Load() > 0 {
		t.Errorf("%d requests reached the server", seen.Load())
	}
}

func TestTrailers(t *testing.T) {
	eachVersion(t, func(t *testing.T, http2 bool) {
		g := newRig(t, nil)
		g.server(http2, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Trailer", "X-Announced")
			_, _ = io.WriteString(w, "body")
			w.Header().Set("X-Announced", "a "+r.Trailer.Get("X-Sent"))
			w.Header().Set(http.TrailerPrefix+"X-Late", "b")
		}, "api.example.org")
		request, _ := http.NewRequest(http.MethodPost, "https://api.example.org/", io.MultiReader(strings.NewReader("x")))
		request.Trailer = http.Header{"X-Sent": {"c"}}
		resp, err := g.client(http2, false).Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if string(body) != "body" || err != nil || resp.Trailer.Get("X-Announced") != "a c" || resp.Trailer.Get("X-Late") != "b" {
			t.Errorf("%q %v %v", body, err, resp.Trailer)
		}
	})
}

func TestInformationalAnswers(t *testing.T) {
	eachVersion(t, func(t *testing.T, http2 bool) {
		g := newRig(t, nil)
		g.server(http2, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/hints" {
				w.Header().Set("Link", "</style.css>")
				w.WriteHeader(http.StatusEarlyHints)
				w.Header().Del("Link")
			}
			_, _ = io.Copy(w, r.Body)
		}, "api.example.org")
		var got []string
		var mu sync.Mutex
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, fmt.Sprint(code, header.Get("Link")))
			return nil
		}})
		client := g.client(http2, false)
		for _, path := range []string{"/hints", "/expect"} {
			request, _ := http.NewRequestWithContext(ctx, http.MethodPost, "https://api.example.org"+path, strings.NewReader("body"))
			if path == "/expect" {
				request.Header.Set("Expect", "100-continue")
			}
			resp, err := client.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if string(body) != "body" || resp.Header.Get("Link") != "" {
				t.Errorf("%q %v", body, resp.Header)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		if want := []string{"103</style.css>", "100"}; !slices.Equal(got, want) {
			t.Errorf("%q, not %q", got, want)
		}
	})
}

// A server that refuses with Expect gets no body. The proxy waits for a second, in a bubble, for
// what the server says.
func TestExpectRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newPipeRig(t, nil)
		g.server(false, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusExpectationFailed) }, "api.example.org")
		var read atomic.Bool
		request, _ := http.NewRequest(http.MethodPost, "https://api.example.org/", readerFunc(func([]byte) (int, error) {
			read.Store(true)
			return 0, io.EOF
		}))
		request.ContentLength = 10
		request.Header.Set("Expect", "100-continue")
		resp, err := g.client(false, false).Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusExpectationFailed || read.Load() {
			t.Errorf("%s, body read: %v", resp.Status, read.Load())
		}
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestAnswersWithoutABody(t *testing.T) {
	eachVersion(t, func(t *testing.T, http2 bool) {
		g := newRig(t, nil)
		g.server(http2, func(w http.ResponseWriter, r *http.Request) {
			w.Header()["Date"] = nil
			w.Header().Add("Set-Cookie", "a=1")
			w.Header().Add("Set-Cookie", "b=2")
			switch r.URL.Path {
			case "/head":
				w.Header().Set("Content-Length", "12345")
			case "/304":
				w.Header().Set("Etag", `"x"`)
				w.WriteHeader(http.StatusNotModified)
			case "/204":
				w.WriteHeader(http.StatusNoContent)
			case "/empty":
				w.Header()["Content-Type"] = nil
			}
		}, "api.example.org")
		client := g.client(http2, false)
		for _, request := range []string{"HEAD /head", "GET /304", "GET /204", "GET /empty", "DELETE /204"} {
			method, path, _ := strings.Cut(request, " ")
			r, _ := http.NewRequest(method, "https://api.example.org"+path, nil)
			resp, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if len(body) > 0 || err != nil || method == "HEAD" && resp.ContentLength != 12345 {
				t.Errorf("%s: %q %v %d", request, body, err, resp.ContentLength)
			}
			if resp.Header["Date"] != nil || path == "/empty" && resp.Header["Content-Type"] != nil || len(resp.Header["Set-Cookie"]) != 2 {
				t.Errorf("%s: %v", request, resp.Header)
			}
		}
	})
}

func TestRequestsPassUnchanged(t *testing.T) {
	g := newRig(t, nil)
	g.server(false, func(w http.ResponseWriter, r *http.Request) {
		names := slices.Sorted(func(yield func(string) bool) {
			for name, values := range r.Header {
				if !yield(fmt.Sprint(name, values)) {
					return
				}
			}
		})
		w.Header()["Content-Encoding"] = []string{"gzip"}
		_, _ = fmt.Fprintf(w, "%s %s %s %d %v", r.Method, r.RequestURI, r.Host, r.ContentLength, names)
	}, "api.example.org")
	for request, want := range map[string]string{
		"GET /a%2Fb//c/../d%20e|f{g}\"h?x=%zz&y;z=1&&? HTTP/1.1\r\nHost: h.example.org": "GET /a%2Fb//c/../d%20e|f{g}\"h?x=%zz&y;z=1&&? h.example.org 0 []",
		"GET //double/slash? HTTP/1.1\r\nHost: h":                                       "GET //double/slash? h 0 []",
		"OPTIONS * HTTP/1.1\r\nHost: h":                                                 "OPTIONS * h 0 []",
		"GET /caf\xc3\xa9 HTTP/1.1\r\nHost: h":                                          "GET /caf\xc3\xa9 h 0 []",
		"GET https://elsewhere.example.org/abs|p?q HTTP/1.1\r\nHost: h":                 "GET /abs|p?q elsewhere.example.org 0 []",
		"GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 1.2.3.4\r\nForwarded: for=x\r\nVia: 1.0 y\r\nAccept-Encoding: zstd\r\nTe: trailers, gzip\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\nProxy-Authorization: z": "GET / h 0 [Accept-Encoding[zstd] Connection[close] Forwarded[for=x] Te[trailers] Via[1.0 y] X-Forwarded-For[1.2.3.4]]",
		"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0": "POST / h 0 [Content-Length[0]]",
	} {
		c := g.secure("api.example.org", "http/1.1")
		_, _ = io.WriteString(c, request+"\r\n\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatalf("%s: %v", request, err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		want = strings.Replace(want, "Connection[close] ", "", 1) // of one connection
		if string(body) != want {
			t.Errorf("%q:\n got %s\nwant %s", request, body, want)
		}
		_ = c.Close()
	}
}

func TestLargeHeaders(t *testing.T) {
	eachVersion(t, func(t *testing.T, http2 bool) {
		g := newRig(t, nil)
		g.server(http2, func(w http.ResponseWriter, r *http.Request) { w.Header().Set("X-Back", r.Header.Get("X-Large")) }, "api.example.org")
		client := g.client(http2, false)
		large := strings.Repeat("x", 64<<10)
		request, _ := http.NewRequest(http.MethodGet, "https://api.example.org/", nil)
		request.Header.Set("X-Large", large)
		resp, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.Header.Get("X-Back") != large {
			t.Error("64 KB do not pass")
		}
		request.Header.Set("X-Large", strings.Repeat("x", 3<<19)) // 1.5 MiB
		if resp, err := client.Do(request); err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
				t.Errorf("1.5 MiB: %s", resp.Status)
			}
		}
	})
}

func TestServersThatCannotBeTrustedOrReached(t *testing.T) {
	g := newRig(t, nil)
	nothing := func(http.ResponseWriter, *http.Request) { t.Error("a request reached the server") }
	g.serverUntil(time.Now().Add(-time.Hour), true, nothing, "expired.example.org")
	wrong := g.server(true, nothing, "right.example.org")
	g.name(wrong.Listener.Addr().String(), "wrong.example.org")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	g.name(l.Addr().String(), "dead.example.org")
	foreign := newTestCA(t)
	g.ca, foreign = foreign, g.ca
	g.server(true, nothing, "unknown.example.org")
	g.ca = foreign
	eachVersion(t, func(t *testing.T, http2 bool) {
		client := g.client(http2, false)
		for host, want := range map[string]string{"expired": "expired", "wrong": "right.example.org", "unknown": "unknown authority", "dead": "502", "missing": "502"} {
			resp, body := get(t, client, "https://"+host+".example.org/")
			if resp.StatusCode != http.StatusBadGateway || !strings.Contains(body, want) || !strings.Contains(body, host+".example.org") {
				t.Errorf("%s: %s %s", host, resp.Status, body)
			}
		}
	})
}

// A large answer does not pile up in the proxy while the client does not read. Each version has a
// bubble of its own.
func TestBackpressure(t *testing.T) {
	most := map[bool]int64{false: 1 << 20, true: 12 << 20} // over HTTP/2 the windows are 4 MiB each
	eachVersionInABubble(t, func(t *testing.T, http2 bool) {
		g := newPipeRig(t, nil)
		var sent atomic.Int64
		block := bytes.Repeat([]byte("x"), 64<<10)
		g.server(http2, func(w http.ResponseWriter, r *http.Request) {
			for range 512 { // 32 MiB
				n, err := w.Write(block)
				sent.Add(int64(n))
				if err != nil {
					return
				}
			}
		}, "api.example.org")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		request, _ := http.NewRequestWithContext(ctx, http.MethodGet, "https://api.example.org/", nil)
		resp, err := g.client(http2, false).Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		synctest.Wait()
		onTheWay := sent.Load()
		if onTheWay > most[http2] {
			t.Errorf("%d bytes are on the way", onTheWay)
		}
		if _, err := io.CopyN(io.Discard, resp.Body, onTheWay+1); err != nil {
			t.Errorf("the answer does not go on: %v", err)
		}
	})
}

func TestBodiesAreReadAgain(t *testing.T) {
	r, _ := http.NewRequest(http.MethodPost, "https://api.example.org/", nil)
	r.Body = io.NopCloser(io.MultiReader(strings.NewReader("first "), strings.NewReader("second")))
	body := newSource(r, func() {})
	one, err := body.attempt()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(one, make([]byte, 8)); err != nil {
		t.Fatal(err)
	}
	_ = one.Close()
	two, err := body.attempt()
	if err != nil {
		t.Fatal(err)
	}
	if all, err := io.ReadAll(two); string(all) != "first second" || err != nil {
		t.Errorf("%q %v", all, err)
	}
	three, err := body.attempt()
	if err != nil {
		t.Fatal(err)
	}
	body.answered() // before the third attempt has read what was kept
	if n, err := three.Read(make([]byte, 8)); n > 0 || !errors.Is(err, errNoReplay) {
		t.Error(n, err)
	}
	r.Body = io.NopCloser(strings.NewReader(strings.Repeat("x", replayLimit+1)))
	body = newSource(r, func() {})
	one, _ = body.attempt()
	if n, err := io.Copy(io.Discard, one); n != replayLimit+1 || err != nil {
		t.Error(n, err)
	}
	if _, err := body.attempt(); !errors.Is(err, errNoReplay) {
		t.Error(err)
	}
}

// The time of silence begins anew with each part of a request. Each version has a bubble of its
// own.
func TestASlowRequestIsNoSilence(t *testing.T) {
	eachVersionInABubble(t, func(t *testing.T, http2 bool) {
		g := newPipeRig(t, nil)
		g.server(http2, func(w http.ResponseWriter, r *http.Request) {
			n, _ := io.Copy(io.Discard, r.Body)
			_, _ = fmt.Fprint(w, n)
		}, "api.example.org")
		g.proxy.opts.Handler.(*forwarder).opts.Silence = time.Second
		left := 15
		body := readerFunc(func(p []byte) (int, error) {
			if left--; left < 0 {
				return 0, io.EOF
			}
			time.Sleep(900 * time.Millisecond)
			return copy(p, "x"), nil
		})
		resp, err := g.client(http2, false).Post("https://api.example.org/", "text/plain", body)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		if text, err := io.ReadAll(resp.Body); string(text) != "15" || err != nil {
			t.Errorf("%s %q %v", resp.Status, text, err)
		}
	})
}

func TestASilentServerIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newPipeRig(t, nil)
		g.server(true, func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "api.example.org")
		began := time.Now()
		resp, body := get(t, g.client(true, false), "https://api.example.org/")
		if resp.StatusCode != http.StatusGatewayTimeout || !strings.Contains(body, "too long") {
			t.Errorf("%s %s", resp.Status, body)
		}
		if took := time.Since(began); took.Round(time.Second) != 15*time.Minute {
			t.Errorf("after %v", took)
		}
	})
}
