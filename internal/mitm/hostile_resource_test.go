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
	"time"
)

// The tests in this file run alone: they count what the process has open.

// usage is what a process has open.
type usage struct{ descriptors, goroutines int }

func usageNow(t *testing.T) usage {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil && runtime.GOOS == "linux" {
		t.Fatal(err)
	}
	return usage{len(entries), runtime.NumGoroutine()}
}

// heap is what is in use after a collection.
func heap() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapInuse + stats.StackInuse)
}

// TestCancelledStreams has clients leave many streams: such that have begun, and such that have not. The server is told at once, and
// nothing stays open.
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
	if protocol == "h1" || path == "/silent" {
		streams = 80 // handshakes take long; more early resets on one connection are taken for an attack
	}
	reached, left := make(chan struct{}, streams), make(chan time.Time, streams)
	target := r.server(func(w http.ResponseWriter, req *http.Request) {
		if path == "/begun" {
			flushed(w, "begun")
		}
		reached <- struct{}{}
		<-req.Context().Done()
		left <- time.Now()
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
		receive(t, reached)
	}
	at := time.Now()
	cancel()
	var last time.Time
	for range streams {
		last = receive(t, left)
	}
	if took := last.Sub(at); took > 10*time.Second {
		t.Errorf("the server was told of the last one after %v", took)
	}
	running.Wait()
	client.CloseIdleConnections()
	r.forwarder.CloseIdleConnections()
	r.until("nothing is left open", func() bool {
		now := usageNow(t)
		return now.descriptors <= before.descriptors && now.goroutines <= before.goroutines
	})
	if t.Failed() {
		t.Logf("before %+v, after %+v", before, usageNow(t))
	}
	r.works(target)
}

// TestClientThatStopsReading has a client read the head of a large answer and no more. The server cannot send much, and the proxy keeps
// little of it. When the client reads on, all of it comes.
func TestClientThatStopsReading(t *testing.T) {
	const size = 64 << 20
	for _, protocol := range []string{"h1", "h2"} {
		t.Run(protocol, func(t *testing.T) {
			r := newHostileRig(t)
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
			for last, since := int64(-1), time.Now(); time.Since(since) < 500*time.Millisecond; time.Sleep(10 * time.Millisecond) {
				if now := sent.Load(); now != last {
					last, since = now, time.Now()
				}
			}
			if n := sent.Load(); n > 16<<20 {
				t.Errorf("the server has sent %d MB", n>>20)
			}
			if grown := heap() - before; grown > 32<<20 {
				t.Errorf("the memory in use has grown by %d MB", grown>>20)
			}
			if n, err := io.Copy(io.Discard, resp.Body); n != size || err != nil {
				t.Errorf("%d bytes, %v", n, err)
			}
		})
	}
}

// TestServerThatStopsReading has a server take none of a large upload. The client cannot send much. When the server leaves, the client is told.
func TestServerThatStopsReading(t *testing.T) {
	for _, protocol := range []string{"h1", "h2"} {
		t.Run(protocol, func(t *testing.T) {
			r := newHostileRig(t)
			leave := make(chan struct{})
			target := r.server(func(_ http.ResponseWriter, req *http.Request) {
				<-leave
				resetServerConn(req)
			})
			var sent atomic.Int64
			body, feed := io.Pipe()
			go func() {
				for part := make([]byte, 64<<10); sent.Load() < 64<<20; sent.Add(int64(len(part))) {
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
			for last, since := int64(-1), time.Now(); time.Since(since) < 500*time.Millisecond; time.Sleep(10 * time.Millisecond) {
				if now := sent.Load(); now != last {
					last, since = now, time.Now()
				}
			}
			if n := sent.Load(); n > 24<<20 {
				t.Errorf("the client has sent %d MB", n>>20)
			}
			close(leave)
			if err := receive(t, answered); err != nil {
				t.Error(err)
			}
			_ = feed.Close()
			r.works(target)
		})
	}
}

// TestConnectionLimit fills the places of the proxy with connections that say nothing, with idle ones, and with tunnels.
func TestConnectionLimit(t *testing.T) {
	const most = 300
	r := newHostileRig(t, impatient, func(o *hostileOptions) { o.MaxConns = most })
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
	for _, conn := range open {
		_ = conn.Close()
	}
	r.until("places are free", func() bool { return r.listener.counts.open.Load() == 0 })
	open = open[:0]
	for range most {
		conn := r.dial()
		_, _ = fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", r.address)
		if head := readHead(t, conn); !strings.HasPrefix(head, "HTTP/1.1 404 ") {
			t.Fatal(head)
		}
		open = append(open, conn)
	}
	r.works(target) // in the place of an idle one
	for _, conn := range open {
		_ = conn.Close()
	}
	r.until("places are free", func() bool { return r.listener.counts.open.Load() <= 1 })
	for range most {
		if conn := r.dial(); conn != nil {
			_, _ = fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", server, server)
		}
	}
	r.until("idle tunnels are closed", func() bool { return r.listener.counts.open.Load() <= 1 })
	r.works(target)
}

// TestShutdownCutsStreams ends the proxy while streams and tunnels are open. What has not ended in time is cut so that no client takes it for complete.
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
	r := &hostileRig{t: t}
	r.until("nothing is left open", func() bool {
		now := usageNow(t)
		return now.descriptors <= before.descriptors && now.goroutines <= before.goroutines
	})
}

// TestShutdownWaitsForStreams ends the proxy while streams are open that end in time. They end cleanly, and Shutdown returns then.
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
		r.shutdown(hostilePatience)
	}()
	r.until("the proxy has stopped to listen", func() bool {
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
	receive(t, stopped)
}
