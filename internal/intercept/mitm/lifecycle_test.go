package mitm

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"perigee/internal/testing/perigeetest/await"
)

func TestShutdownLetsAnswersEnd(t *testing.T) {
	eachVersion(t, func(t *testing.T, http2 bool) {
		g := newRig(t, nil)
		more := make(chan struct{})
		g.server(http2, func(w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			<-more
			_, _ = io.WriteString(w, "complete")
		}, "api.example.org")
		client := g.client(http2, false)
		resp, err := client.Get("https://api.example.org/")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		down := make(chan error, 1)
		go func() { down <- g.proxy.Shutdown(t.Context()) }()
		await.Until(t, "no new connections", func() bool {
			c, err := net.Dial("tcp", g.address)
			if err == nil {
				_ = c.Close()
			}
			return err != nil
		})
		close(more)
		if body, err := io.ReadAll(resp.Body); string(body) != "complete" || err != nil {
			t.Errorf("%q %v", body, err)
		}
		if err := await.Receive(t, down, "the end of Shutdown"); err != nil {
			t.Error(err)
		}
		if g.open() != 0 {
			t.Errorf("%d connections are open", g.open())
		}
	})
}

func TestShutdownCutsVisibly(t *testing.T) {
	eachVersion(t, func(t *testing.T, http2 bool) {
		g := newRig(t, nil)
		g.server(http2, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "half")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, "api.example.org", "unseen.example.net")
		client := g.client(http2, false)
		for _, host := range []string{"api.example.org", "unseen.example.net"} {
			resp, err := client.Get("https://" + host)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				body, err := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				if string(body) != "half" || err == nil {
					t.Errorf("%s: %q %v", host, body, err)
				}
			}()
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if err := g.proxy.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if err := g.proxy.Serve(unused()); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
}

// unused is a listener that nothing connects to.
func unused() net.Listener { return newHandover() }

func TestConnectionsAreBounded(t *testing.T) {
	g := newRig(t, func(o *Options) { o.MaxConns = 2 })
	g.server(false, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hold" {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	}, "api.example.org")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	client := g.client(false, false)
	request, _ := http.NewRequestWithContext(ctx, http.MethodGet, "https://api.example.org/hold", nil)
	held, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = held.Body.Close() }()
	get(t, client, "https://api.example.org/") // its connection is idle now, and gives its place
	await.Until(t, "idle", func() bool {
		g.proxy.conns.mu.Lock()
		defer g.proxy.conns.mu.Unlock()
		return g.proxy.conns.oldestIdle() != nil
	})
	get(t, g.client(false, false), "https://api.example.org/")
	second, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://api.example.org/hold", nil)
	if err != nil {
		t.Fatal(err)
	}
	await.Until(t, "idle", func() bool {
		g.proxy.conns.mu.Lock()
		defer g.proxy.conns.mu.Unlock()
		return g.proxy.conns.oldestIdle() != nil
	})
	again, err := g.client(false, false).Do(second)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = again.Body.Close() }()
	resp, err := http.ReadResponse(bufio.NewReader(g.dial()), nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusServiceUnavailable || err != nil || !strings.HasSuffix(string(text), "\n") {
		t.Errorf("%s %q %v", resp.Status, text, err)
	}
}

func TestStalledBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newPipeRig(t, nil)
		g.server(true, func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				w.WriteHeader(http.StatusRequestTimeout)
			}
		}, "api.example.org")
		c := g.secure("api.example.org", "http/1.1")
		_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nbegin")
		if all, err := io.ReadAll(c); len(all) > 0 && !strings.HasPrefix(string(all), "HTTP/1.1 408 ") {
			t.Errorf("HTTP/1.1: %q %v %s", all, err, g.log)
		}
		body, rest := io.Pipe()
		defer func() { _ = rest.Close() }()
		go func() { _, _ = rest.Write([]byte("begin")) }()
		request, _ := http.NewRequest(http.MethodPost, "https://api.example.org/", body)
		resp, err := g.client(true, false).Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusRequestTimeout {
			t.Error("HTTP/2: " + resp.Status)
		}
	})
}

// Each version has a bubble of its own.
func TestAnswersThatAreNotReadAreGivenUp(t *testing.T) {
	eachVersionInABubble(t, func(t *testing.T, http2 bool) {
		g := newPipeRig(t, nil)
		gone := make(chan struct{})
		g.server(http2, func(w http.ResponseWriter, r *http.Request) {
			defer close(gone)
			block := make([]byte, 64<<10)
			for {
				if _, err := w.Write(block); err != nil {
					return
				}
			}
		}, "api.example.org")
		resp, err := g.client(http2, false).Get("https://api.example.org/")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		<-gone
	})
}

func TestIdleTunnelsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newPipeRig(t, nil)
		l := g.listen()
		defer func() { _ = l.Close() }()
		g.name(l.Addr().String(), "quiet.example.net")
		_, _ = io.WriteString(g.dial(), "CONNECT quiet.example.net:7 HTTP/1.1\r\nHost: x\r\n\r\n")
		if tunnel := <-g.tunnels; !errors.Is(tunnel.Err, errIdle) || tunnel.Took < 5*time.Minute || tunnel.Took > 8*time.Minute {
			t.Errorf("%+v", tunnel)
		}
	})
}

func TestRapidResetsCloseTheConnection(t *testing.T) {
	g := newRig(t, nil)
	started := make(chan struct{})
	g.server(true, func(w http.ResponseWriter, r *http.Request) {
		select {
		case started <- struct{}{}:
		case <-r.Context().Done():
		}
		<-r.Context().Done()
	}, "api.example.org")
	client := g.client(true, false)
	for i := 0; !strings.Contains(g.log.String(), "resets its streams"); i++ { // more than maxResets if the machine is slow
		if i > 10*maxResets {
			t.Fatal("the connection is not closed")
		}
		ctx, cancel := context.WithCancel(t.Context())
		request, _ := http.NewRequestWithContext(ctx, http.MethodGet, "https://api.example.org/", nil)
		done := make(chan struct{})
		go func() {
			defer close(done)
			if resp, err := client.Do(request); err == nil {
				_ = resp.Body.Close()
				t.Errorf("%d: answered", i)
			}
		}()
		select {
		case <-started:
		case <-done: // on the connection that was closed
		}
		cancel()
		await.Receive(t, done, "the end of the request")
	}
	await.Until(t, "the connection is closed", func() bool { return g.open() == 0 })
	if n := strings.Count(g.log.String(), "resets its streams"); n != 1 {
		t.Errorf("%d lines", n)
	}
}

func TestResetsAreForgiven(t *testing.T) {
	var b resetBucket
	now := time.Now()
	for range 10 * maxResets {
		if now = now.Add(time.Second); b.add(now) {
			t.Fatal("one reset per second is too many")
		}
	}
	for i := range maxResets {
		if full := b.add(now); full != (i == maxResets-1) {
			t.Fatalf("%d: %v", i, full)
		}
	}
}

func TestPanicsOfTheHandlerAreLogged(t *testing.T) {
	eachVersion(t, func(t *testing.T, http2 bool) {
		g := newRig(t, func(o *Options) {
			o.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("what now") })
		})
		if resp, err := g.client(http2, false).Get("https://api.example.org/"); err == nil {
			_ = resp.Body.Close()
			t.Error(resp.Status)
		}
		g.logged("what now")
	})
}

// The same host at two addresses is two servers.
func TestRedirectedConnectionsGoToTheirDestination(t *testing.T) {
	g := newRig(t, nil)
	transport, err := NewTransport(TransportOptions{CAFile: g.ca.file})
	if err != nil {
		t.Fatal(err)
	}
	defer transport.(interface{ CloseIdleConnections() }).CloseIdleConnections()
	for _, http2 := range []bool{false, true} {
		for range 2 {
			for _, name := range []string{"one", "two"} {
				server := g.server(http2, func(w http.ResponseWriter, r *http.Request) {
					_, _ = fmt.Fprint(w, name, " ", r.Host, " ", r.ProtoMajor)
				}, "api.example.org")
				ctx := context.WithValue(t.Context(), connKey{}, &clientConn{destination: server.Listener.Addr().String()})
				request, _ := http.NewRequestWithContext(ctx, http.MethodGet, "https://api.example.org/", nil)
				version := 1
				if http2 {
					version = 2
				}
				request.ProtoMajor = version
				resp, err := transport.RoundTrip(request)
				if err != nil {
					t.Fatal(err)
				}
				body, _ := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				if want := fmt.Sprint(name, " api.example.org ", version); string(body) != want {
					t.Errorf("%s, not %s", body, want)
				}
			}
		}
	}
}
