package wire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"perigee/internal/testing/perigeetest/await"
)

// A rawServer speaks HTTP/1.1 by hand, as serve says for the nth request on a connection, counted
// from 0. False closes the connection.
type rawServer struct {
	url      string
	requests atomic.Int32 // of which it has seen the head
}

func newRawServer(t *testing.T, serve func(n int, c net.Conn) bool) *rawServer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &rawServer{url: "http://" + listener.Addr().String()}
	var open sync.WaitGroup
	open.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			open.Go(func() {
				defer c.Close()
				r := bufio.NewReader(c)
				for n := 0; ; n++ {
					if _, err := r.Peek(1); err != nil {
						return
					}
					s.requests.Add(1)
					if !serve(n, c) {
						return // with what was sent unread, so the client is told by a reset
					}
					req, err := http.ReadRequest(r)
					if err != nil {
						return
					}
					size, _ := io.Copy(io.Discard, req.Body)
					fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%d", len(fmt.Sprint(size)), size)
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		await.Return(t, open.Wait, "the connections of the server")
	})
	return s
}

func (s *rawServer) rig(t *testing.T) *healthRig {
	transport := NewTransport()
	transport.resendWithin = time.Minute // a busy machine may take longer than production allows
	r := &healthRig{client: NewClient(transport), transport: transport, url: s.url}
	t.Cleanup(r.client.CloseIdleConnections)
	return r
}

// A server that closes a kept connection just when the next request comes costs nothing.
func TestClosedWhileIdle(t *testing.T) {
	for _, size := range []int{10, 300 << 10} {
		server := newRawServer(t, func(n int, _ net.Conn) bool { return n == 0 })
		r := server.rig(t)
		again := 0
		for i := range 120 {
			answer, resent, err := r.post(t.Context(), strings.Repeat("x", size))
			if answer != fmt.Sprint(size) || err != nil || resent > 1 {
				t.Fatalf("%d bytes, call %d: %q, sent again %d times, %v", size, i, answer, resent, err)
			}
			again += resent
		}
		if again == 0 {
			t.Errorf("%d bytes: no request met a closed connection", size)
		}
	}
}

// What is not sent again: a request that the server hung up on with a new connection, one that was
// answered in part, and one whose client has left.
func TestNotSentAgain(t *testing.T) {
	var seen atomic.Int32
	for name, test := range map[string]struct {
		serve    func(n int, c net.Conn) bool
		calls    int
		requests int32
	}{
		"new connection":   {func(int, net.Conn) bool { return false }, 1, 1},
		"one more at most": {func(int, net.Conn) bool { return seen.Add(1) == 1 }, 2, 3},
		"answered in part": {func(n int, c net.Conn) bool {
			if n == 0 {
				return true
			}
			_, _ = io.WriteString(c, "H")
			return false
		}, 2, 2},
	} {
		server := newRawServer(t, test.serve)
		r := server.rig(t)
		var err error
		for i := range test.calls {
			if _, _, err = r.post(t.Context(), "x"); (err == nil) != (i < test.calls-1) {
				t.Errorf("%s: call %d: %v", name, i, err)
			}
		}
		if n := server.requests.Load(); n != test.requests {
			t.Errorf("%s: %d requests arrived, want %d; %v", name, n, test.requests, err)
		}
	}

	ctx, leave := context.WithCancel(t.Context())
	server := newRawServer(t, func(n int, _ net.Conn) bool {
		if n > 0 {
			leave()
		}
		return n == 0
	})
	r := server.rig(t)
	for range 2 {
		if _, resent, err := r.post(ctx, "x"); resent > 0 || err != nil && !errors.Is(err, context.Canceled) && ctx.Err() == nil {
			t.Errorf("sent again %d times, %v", resent, err)
		}
	}
}

// A reused connection that the server closes under a request costs nothing: the request is sent
// once more.
func TestClosedUnderRequest(t *testing.T) {
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			var calls atomic.Int32
			var server *httptest.Server
			r := newHealthRig(t, protocol, func(w http.ResponseWriter, req *http.Request) {
				if calls.Add(1) == 2 {
					server.CloseClientConnections()
					return
				}
				echo(w, req)
			})
			server = r.server
			for i := range 3 {
				if answer, resent, err := r.post(t.Context(), "x"); answer == "" || err != nil || (resent == 1) != (i == 1) {
					t.Errorf("call %d: %q, sent again %d times, %v", i, answer, resent, err)
				}
			}
			if n := calls.Load(); n != 4 {
				t.Errorf("%d requests arrived", n)
			}
		})
	}
}

// A request that the server resets on a connection that works is not sent again.
func TestStreamResetIsNotSentAgain(t *testing.T) {
	var calls atomic.Int32
	r := newHealthRig(t, "HTTP/2.0", func(w http.ResponseWriter, req *http.Request) {
		if calls.Add(1) > 1 {
			panic(http.ErrAbortHandler)
		}
		echo(w, req)
	})
	for i := range 2 {
		if _, resent, err := r.post(t.Context(), "x"); resent > 0 || (err == nil) != (i == 0) {
			t.Errorf("call %d: sent again %d times, %v", i, resent, err)
		}
	}
	if calls.Load() != 2 || r.relay.Accepted() != 1 {
		t.Errorf("%d requests on %d connections", calls.Load(), r.relay.Accepted())
	}
}

// After a time-out the next request uses another connection, and requests that wait on the old one
// are still answered.
func TestTimeOutRenewsConnection(t *testing.T) {
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			waiting, finish := make(chan struct{}, 2), make(chan struct{})
			r := newHealthRig(t, protocol, func(w http.ResponseWriter, req *http.Request) {
				switch req.URL.Path {
				case "/hang":
					_, _ = io.Copy(io.Discard, req.Body) // net/http watches a connection only then
					waiting <- struct{}{}
					<-req.Context().Done()
				case "/slow":
					waiting <- struct{}{}
					<-finish
				}
				echo(w, req)
			})
			if _, _, err := r.post(t.Context(), "x"); err != nil {
				t.Fatal(err)
			}
			slow, hanging := *r, *r
			slow.url += "/slow"
			hanging.url += "/hang"
			answered := make(chan error, 1)
			go func() {
				_, _, err := slow.post(t.Context(), "x")
				answered <- err
			}()
			await.Receive(t, waiting, "the slow request")
			ctx, cancel := context.WithCancelCause(t.Context())
			go func() {
				<-waiting
				cancel(ErrFirstByte)
			}()
			if _, resent, err := hanging.post(ctx, "x"); err == nil || resent > 0 {
				t.Fatalf("sent again %d times, %v", resent, err)
			}
			before := r.relay.Accepted()
			if _, _, err := r.post(t.Context(), "x"); err != nil {
				t.Fatal(err)
			}
			if n := r.relay.Accepted(); n != before+1 {
				t.Errorf("%d connections after the time-out, want %d", n, before+1)
			}
			close(finish)
			if err := await.Receive(t, answered, "the slow answer"); err != nil {
				t.Errorf("the request beside it: %v", err)
			}
		})
	}
}
