package mitm_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"perigee/internal/testing/perigeetest/await"
)

// The tests in this file run alone: they count what the process has open.

// usage is what a process has open.
type usage struct{ sockets, goroutines int }

func usageNow(t *testing.T) usage {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil && runtime.GOOS == "linux" {
		t.Fatal(err)
	}
	now := usage{goroutines: runtime.NumGoroutine()}
	for _, entry := range entries { // pipes are not counted: the standard library keeps some, to copy between sockets
		if to, err := os.Readlink("/proc/self/fd/" + entry.Name()); err == nil && strings.HasPrefix(to, "socket:") {
			now.sockets++
		}
	}
	return now
}

// heap is what is in use after a collection.
func heap() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapInuse + stats.StackInuse)
}

// TestCancelledStreams has clients leave many streams: such that have begun, and such that have
// not. The server is told at once, and nothing stays open.
func TestCancelledStreams(t *testing.T) {
	for _, protocol := range []string{"h1", "h2"} {
		for _, path := range []string{"/begun", "/silent"} {
			t.Run(protocol+path, func(t *testing.T) { testCancelledStreams(t, protocol, path) })
		}
	}
}

func testCancelledStreams(t *testing.T, protocol, path string) {
	r := newHostileRig(t)
	streams := 200
	switch {
	case testing.Short():
		streams = 20
	case protocol == "h1" || path == "/silent":
		streams = 80 // handshakes take long; more early resets on one connection are taken for an attack
	}
	reached, left := make(chan struct{}, streams), make(chan struct{}, streams)
	target := r.server(func(w http.ResponseWriter, req *http.Request) {
		if path == "/begun" {
			flushed(w, "begun")
		}
		reached <- struct{}{}
		<-req.Context().Done()
		left <- struct{}{}
	})
	r.works(target)
	client := r.client(protocol)
	before := usageNow(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var running sync.WaitGroup
	for range streams {
		running.Go(func() {
			req, _ := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+target+path, nil)
			resp, err := client.Do(req)
			if err == nil {
				_, err = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
			if !errors.Is(err, context.Canceled) {
				t.Errorf("a stream ended with %v", err)
			}
		})
	}
	for range streams {
		await.Receive(t, reached, "a stream at the server")
	}
	cancel()
	for range streams {
		await.Receive(t, left, "the end of a stream at the server")
	}
	await.Return(t, running.Wait, "the clients")
	client.CloseIdleConnections()
	r.forwarder.CloseIdleConnections()
	await.Until(t, "nothing is left open", func() bool {
		now := usageNow(t)
		return now.sockets <= before.sockets && now.goroutines <= before.goroutines
	})
	if t.Failed() {
		t.Logf("before %+v, after %+v", before, usageNow(t))
	}
	r.works(target)
}

// TestClientThatStopsReading has a client read the head of a large answer and no more. The server
// cannot send much, and the proxy keeps little of it. When the client reads on, all of it comes.
// HTTP/1.1 and HTTP/2 have a bubble each.
func TestClientThatStopsReading(t *testing.T) {
	const size = 24 << 20
	most := map[string]int64{"h1": 1 << 20, "h2": 12 << 20} // over HTTP/2 the windows are 4 MiB each
	bothInBubbles(t, func(t *testing.T, protocol string) {
		r := newHostileRig(t, overPipes)
		var sent atomic.Int64
		target := r.server(func(w http.ResponseWriter, req *http.Request) {
			for part := make([]byte, 64<<10); sent.Load() < size; sent.Add(int64(len(part))) {
				if _, err := w.Write(part); err != nil {
					return
				}
			}
		})
		before := heap()
		resp, err := r.client(protocol).Get("https://" + target + "/")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		synctest.Wait()
		if n := sent.Load(); n > most[protocol] {
			t.Errorf("the server has sent %d bytes", n)
		}
		if grown := heap() - before; grown > 32<<20 {
			t.Errorf("the memory in use has grown by %d MB", grown>>20)
		}
		if n, err := io.Copy(io.Discard, resp.Body); n != size || err != nil {
			t.Errorf("%d bytes, %v", n, err)
		}
	})
}

// TestServerThatStopsReading has a server take none of a large upload. The client cannot send much.
// When the server leaves, the client is told. HTTP/1.1 and HTTP/2 have a bubble each.
func TestServerThatStopsReading(t *testing.T) {
	bothInBubbles(t, func(t *testing.T, protocol string) {
		r := newHostileRig(t, overPipes)
		leave := make(chan struct{})
		target := r.server(func(_ http.ResponseWriter, req *http.Request) {
			<-leave
			_ = req.Context().Value(serverConnKey{}).(net.Conn).Close()
		})
		var sent atomic.Int64
		body, feed := io.Pipe()
		go func() {
			for part := make([]byte, 64<<10); sent.Load() < 24<<20; sent.Add(int64(len(part))) {
				if _, err := feed.Write(part); err != nil {
					return
				}
			}
		}()
		answered := make(chan error, 1)
		go func() {
			resp, err := r.post(protocol, target, "/", body)
			if err == nil {
				_ = resp.Body.Close()
				if resp.StatusCode < 500 {
					err = fmt.Errorf("status %d", resp.StatusCode)
				}
			} else {
				err = nil // the connection was cut
			}
			answered <- err
		}()
		synctest.Wait()
		if n := sent.Load(); n > 4<<20 {
			t.Errorf("the client has sent %d bytes", n)
		}
		close(leave)
		if err := <-answered; err != nil {
			t.Error(err)
		}
		_ = feed.Close()
		r.works(target)
	})
}

// TestConnectionLimit fills the places of the proxy with connections that say nothing, with idle
// ones, and with tunnels.
func TestConnectionLimit(t *testing.T) {
	synctest.Test(t, testConnectionLimit)
}

// testConnectionLimit runs in a bubble.
func testConnectionLimit(t *testing.T) {
	const most = 300
	r := newHostileRig(t, overPipes, func(o *hostileOptions) { o.MaxConns = most })
	target := r.server(func(http.ResponseWriter, *http.Request) {})
	server := strings.Replace(r.rawServer(nil, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }), "localhost", "127.0.0.1", 1)
	before := heap()
	var open []net.Conn
	for range most {
		open = append(open, r.dial())
	}
	refused := r.dial()
	if head := readHead(t, refused); !strings.HasPrefix(head, "HTTP/1.1 503 ") || !strings.Contains(head, "\r\nRetry-After: ") {
		t.Errorf("beyond the limit: %q", head)
	}
	if each := (heap() - before) / most; each > 64<<10 {
		t.Errorf("%d KB for each silent connection", each>>10)
	}
	closeAll := func() {
		for _, conn := range open {
			_ = conn.Close()
		}
		open = open[:0]
		synctest.Wait()
	}
	closeAll()
	if n := r.listener.counts.open.Load(); n > 0 {
		t.Errorf("%d closed connections have a place", n)
	}
	for range most {
		conn := r.dial()
		_, _ = fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", r.address)
		if head := readHead(t, conn); !strings.HasPrefix(head, "HTTP/1.1 404 ") {
			t.Fatal(head)
		}
		open = append(open, conn)
	}
	synctest.Wait()
	r.works(target) // in the place of an idle one
	closeAll()
	for range most - 1 {
		r.connect(server)
	}
	time.Sleep(10 * time.Minute)
	if n := r.listener.counts.open.Load(); n > 0 {
		t.Errorf("%d idle tunnels are open", n)
	}
	r.works(target)
}

// TestShutdownCutsStreams ends the proxy while streams and tunnels are open. What has not ended in
// time is cut so that no client takes it for complete.
func TestShutdownCutsStreams(t *testing.T) {
	before := usageNow(t)
	t.Run("rig", func(t *testing.T) {
		r := newHostileRig(t)
		target := r.server(func(w http.ResponseWriter, req *http.Request) {
			flushed(w, "begun")
			<-req.Context().Done()
		})
		server := strings.Replace(r.rawServer(nil, func(conn net.Conn) { _, _ = io.Copy(conn, conn) }), "localhost", "127.0.0.1", 1)
		var streams []*http.Response
		for _, protocol := range []string{"h1", "h2"} {
			resp, err := r.client(protocol).Get("https://" + target + "/")
			if err != nil {
				t.Fatal(err)
			}
			streams = append(streams, resp)
		}
		others := map[string]net.Conn{"silent": r.dial(), "tunnel": r.connect(server), "before TLS": r.connect(target), "in TLS": r.secure(target, "http/1.1"),
			"HTTP/2": r.h2(target).conn}
		r.shutdown(200 * time.Millisecond)
		for _, resp := range streams {
			if got, err := io.ReadAll(resp.Body); err == nil {
				t.Errorf("%s: a clean end after %q", resp.Proto, got)
			}
			_ = resp.Body.Close()
		}
		for name, conn := range others {
			if _, err := io.Copy(io.Discard, conn); err != nil && strings.Contains(err.Error(), "timeout") {
				t.Errorf("%s: still open", name)
			}
		}
		if conn, err := net.DialTimeout("tcp4", r.address, time.Second); err == nil {
			_ = conn.Close()
			t.Error("the proxy still listens")
		}
	})
	await.Until(t, "nothing is left open", func() bool {
		now := usageNow(t)
		return now.sockets <= before.sockets && now.goroutines <= before.goroutines
	})
}

// TestShutdownWaitsForStreams ends the proxy while streams are open that end in time. They end
// cleanly, and Shutdown returns then.
func TestShutdownWaitsForStreams(t *testing.T) {
	r := newHostileRig(t)
	stopping := make(chan struct{})
	target := r.server(func(w http.ResponseWriter, req *http.Request) {
		flushed(w, "begun")
		<-stopping
		flushed(w, "ended")
	})
	conn := r.secure(target, "http/1.1")
	_, _ = fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", target)
	first, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	client := r.client("h2")
	second, err := client.Get("https://" + target + "/")
	if err != nil {
		t.Fatal(err)
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		r.shutdown(await.Limit)
	}()
	await.Until(t, "the proxy has stopped to listen", func() bool {
		probe, err := net.DialTimeout("tcp4", r.address, time.Second)
		if err == nil {
			_ = probe.Close()
		}
		return err != nil
	})
	close(stopping)
	for _, resp := range []*http.Response{first, second} {
		if body, err := io.ReadAll(resp.Body); string(body) != "begunended" || err != nil {
			t.Errorf("%s: %q, %v", resp.Proto, body, err)
		}
		_ = resp.Body.Close()
	}
	if _, err := io.Copy(io.Discard, conn); err != nil { // the proxy closes it, although the client would keep it
		t.Error(err)
	}
	await.Receive(t, stopped, "the end of Shutdown")
}
