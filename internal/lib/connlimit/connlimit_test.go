package connlimit

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"perigee/internal/testing/perigeetest/await"
)

// A connRig is a server behind a Limiter. Requests for /wait are answered when the test says so.
type connRig struct {
	t       *testing.T
	limiter *Limiter
	address string
	waiting chan struct{} // a request for /wait has reached its handler
	release chan struct{}
	log     *logBuffer
}

type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func newConnRig(t *testing.T, most int, memory int64) *connRig {
	t.Helper()
	rig := &connRig{t: t, waiting: make(chan struct{}, 99), release: make(chan struct{}), log: &logBuffer{}}
	rig.limiter = New(slog.New(slog.NewTextHandler(rig.log, nil)))
	rig.limiter.Apply(most, memory)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			rig.waiting <- struct{}{}
			<-rig.release
		}
		_, _ = io.WriteString(w, "hello")
	})
	server := &http.Server{Handler: rig.limiter.Handler(handler), ConnContext: rig.limiter.ConnContext,
		ConnState: rig.limiter.ConnState}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	rig.address = listener.Addr().String()
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(rig.limiter.Listener(listener))
	}()
	t.Cleanup(func() {
		close(rig.release)
		_ = server.Close()
		await.Receive(t, served, "the end of Serve")
	})
	return rig
}

// dial opens a connection.
func (r *connRig) dial() net.Conn {
	r.t.Helper()
	conn, err := net.Dial("tcp", r.address)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(await.Limit))
	return conn
}

// get makes a request on a connection and returns the answer.
func (r *connRig) get(conn net.Conn, path string) (*http.Response, string) {
	r.t.Helper()
	_, _ = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path) // a refused connection may be closed for writing
	return r.answer(conn)
}

func (r *connRig) answer(conn net.Conn) (*http.Response, string) {
	r.t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		r.t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp, string(body)
}

// hold has n requests wait in their handlers, each on a connection of its own.
func (r *connRig) hold(n int) {
	r.t.Helper()
	for range n {
		_, _ = io.WriteString(r.dial(), "GET /wait HTTP/1.1\r\nHost: x\r\n\r\n")
		await.Receive(r.t, r.waiting, "a request in its handler")
	}
}

func (r *connRig) idle() bool {
	r.limiter.mu.Lock()
	defer r.limiter.mu.Unlock()
	return r.limiter.oldestIdle() != nil
}

func (r *connRig) open() int {
	r.limiter.mu.Lock()
	defer r.limiter.mu.Unlock()
	return len(r.limiter.open)
}

func TestConnectionsBeyondTheLimitAreToldSo(t *testing.T) {
	rig := newConnRig(t, 2, 1<<30)
	rig.hold(2)
	for range 3 {
		resp, body := rig.get(rig.dial(), "/")
		if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") != "2" ||
			resp.Header.Get("X-Perigee-Class") != "capacity" || !strings.Contains(body, "limits.connections") {
			t.Errorf("%d %v: %s", resp.StatusCode, resp.Header, body)
		}
	}
	if n := strings.Count(rig.log.String(), "connections refused"); n != 1 {
		t.Errorf("%d lines within a minute:\n%s", n, rig.log)
	}
	if rig.open() != 2 {
		t.Errorf("%d are open", rig.open())
	}
}

func TestAnIdleConnectionGivesItsPlace(t *testing.T) {
	rig := newConnRig(t, 2, 1<<30)
	rig.hold(1)
	first := rig.dial()
	if _, body := rig.get(first, "/"); body != "hello" {
		t.Fatal(body)
	}
	await.Until(t, "the first connection is idle", rig.idle)
	if resp, body := rig.get(rig.dial(), "/"); resp.StatusCode != http.StatusOK || body != "hello" {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	if n, err := first.Read(make([]byte, 1)); err == nil || n > 0 {
		t.Error("the idle connection stays open")
	}
}

func TestLimitsChangeWhileConnectionsAreOpen(t *testing.T) {
	rig := newConnRig(t, 1, 1<<30)
	rig.hold(1)
	if resp, _ := rig.get(rig.dial(), "/"); resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("beyond the limit: %d", resp.StatusCode)
	}
	rig.limiter.Apply(0, 1<<30) // unlimited
	rig.hold(5)
	rig.limiter.Apply(3, 1<<30)
	if resp, _ := rig.get(rig.dial(), "/"); resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("after the limit was lowered: %d", resp.StatusCode)
	}
}

// A place is free as soon as its connection is closed, and only once.
func TestAClosedConnectionFreesItsPlace(t *testing.T) {
	limiter := New(slog.New(slog.DiscardHandler))
	limiter.Apply(1, 1<<30)
	one, other := net.Pipe()
	defer func() { _ = other.Close() }()
	taken := limiter.take(one)
	if taken == nil || limiter.take(other) != nil {
		t.Fatal("one place is not one place")
	}
	_ = taken.Close()
	_ = taken.Close()
	if limiter.take(other) == nil || len(limiter.open) != 1 {
		t.Error("the place is not free")
	}
}

// Without a word, because it would not be part of TLS.
func TestRefusalsOfEncryptedListenersAreSilent(t *testing.T) {
	rig := newConnRig(t, 1, 1<<30)
	rig.limiter.Encrypted = true
	rig.hold(1)
	conn := rig.dial()
	if text, err := io.ReadAll(conn); err != nil || len(text) > 0 {
		t.Errorf("%q, %v", text, err)
	}
}

// Heads count beyond their first 4 KiB. One that does not fit is answered; small ones always fit.
func TestLargeHeadsAreBounded(t *testing.T) {
	rig := newConnRig(t, 0, 32*(16<<10))
	large := rig.dial()
	const begin = "GET / HTTP/1.1\r\nHost: x\r\nX-Large: "
	if _, err := io.WriteString(large, begin+strings.Repeat("x", 12<<10)); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the head is counted", func() bool { return rig.limiter.heads.Load() > 7<<10 })
	second := rig.dial()
	_, _ = io.WriteString(second, begin+strings.Repeat("x", 30<<10))
	if resp, body := rig.answer(second); resp.StatusCode != http.StatusServiceUnavailable ||
		!strings.Contains(body, "large request heads") {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	if resp, _ := rig.get(rig.dial(), "/"); resp.StatusCode != http.StatusOK {
		t.Errorf("a small head: %d", resp.StatusCode)
	}
	_, _ = io.WriteString(large, "\r\n\r\n")
	if resp, _ := rig.answer(large); resp.StatusCode != http.StatusOK {
		t.Errorf("the head that was there first: %d", resp.StatusCode)
	}
	await.Until(t, "no head is counted", func() bool { return rig.limiter.heads.Load() == 0 })
}

// A refused head does not count while its client may still read the answer: the heads of other
// connections have its room.
func TestARefusedHeadDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := New(slog.New(slog.DiscardHandler))
		limiter.Apply(0, 32*(8<<10))
		ours, theirs := net.Pipe()
		defer func() { _ = theirs.Close() }()
		conn := limiter.take(ours)
		go func() {
			_, _ = io.Copy(io.Discard, conn)
			_ = conn.Close()
		}()
		go func() { _, _ = theirs.Write(make([]byte, 20<<10)) }()
		resp, err := http.ReadResponse(bufio.NewReader(theirs), nil)
		if err != nil || resp.StatusCode != http.StatusServiceUnavailable {
			t.Fatalf("%v, %v", resp, err)
		}
		synctest.Wait()
		if open, heads := len(limiter.open), limiter.heads.Load(); open != 1 || heads != 0 {
			t.Errorf("%d connections are open, and %d bytes of heads count", open, heads)
		}
	})
}

// The answer to a head that does not fit is part of TLS where the connection is encrypted.
func TestLargeHeadsOverTLS(t *testing.T) {
	limiter := New(slog.New(slog.DiscardHandler))
	limiter.Apply(0, 32*(8<<10))
	server := httptest.NewUnstartedServer(limiter.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {})))
	server.Listener = limiter.Listener(server.Listener)
	server.Config.ConnContext, server.Config.ConnState = limiter.ConnContext, limiter.ConnState
	server.StartTLS()
	defer server.Close()
	conn, err := tls.Dial("tcp", server.Listener.Addr().String(), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(await.Limit))
	go func() {
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nX-Large: "+strings.Repeat("x", 40<<10))
	}()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || resp.StatusCode != http.StatusServiceUnavailable {
		t.Fatalf("%v, %v", resp, err)
	}
	_ = resp.Body.Close()
}

// A connection that has sent nothing is waited for: its first request may be on the way.
func TestFreshConnectionsAreWaitedFor(t *testing.T) {
	rig := newConnRig(t, 0, 1<<30)
	rig.limiter.WaitFresh(t.Context()) // there is none
	conn := rig.dial()
	await.Until(t, "the connection is known", rig.limiter.anyFresh)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	rig.limiter.WaitFresh(ctx)
	if !rig.limiter.anyFresh() {
		t.Error("the end of a wait is not the end of the connection")
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		rig.limiter.WaitFresh(t.Context())
	}()
	rig.limiter.Drain()
	resp, body := rig.get(conn, "/")
	if resp.StatusCode != http.StatusOK || body != "hello" || !resp.Close {
		t.Errorf("%d %s, closes: %v", resp.StatusCode, body, resp.Close)
	}
	await.Receive(t, done, "the end of WaitFresh")
}

func TestAClosedConnectionIsNotWaitedFor(t *testing.T) {
	rig := newConnRig(t, 0, 1<<30)
	conn := rig.dial()
	await.Until(t, "the connection is known", rig.limiter.anyFresh)
	_ = conn.Close()
	rig.limiter.WaitFresh(t.Context())
}
