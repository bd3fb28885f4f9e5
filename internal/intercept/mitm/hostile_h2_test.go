package mitm_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"perigee/internal/testing/perigeetest/await"
)

// An h2Peer writes and reads the frames of one HTTP/2 connection, valid or not.
type h2Peer struct {
	*http2.Framer
	conn  *tls.Conn
	block bytes.Buffer
	hpack *hpack.Encoder
}

// h2 opens a connection in a tunnel. Frames that arrive are not read.
func (r *hostileRig) h2(target string, settings ...http2.Setting) *h2Peer {
	r.t.Helper()
	conn := r.secure(target, "h2")
	if p := conn.ConnectionState().NegotiatedProtocol; p != "h2" {
		r.t.Fatalf("the proxy speaks %q", p)
	}
	p := newH2Peer(conn)
	_, _ = io.WriteString(conn, http2.ClientPreface)
	if err := p.WriteSettings(settings...); err != nil {
		r.t.Fatal(err)
	}
	return p
}

func newH2Peer(conn net.Conn) *h2Peer {
	p := &h2Peer{Framer: http2.NewFramer(conn, conn), conn: conn.(*tls.Conn)}
	p.AllowIllegalWrites = true
	p.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	p.hpack = hpack.NewEncoder(&p.block)
	return p
}

// fields encodes headers, names and values in turn.
func (p *h2Peer) fields(pairs ...string) []byte {
	p.block.Reset()
	for i := 0; i < len(pairs); i += 2 {
		_ = p.hpack.WriteField(hpack.HeaderField{Name: pairs[i], Value: pairs[i+1]})
	}
	return bytes.Clone(p.block.Bytes())
}

// request begins a stream.
func (p *h2Peer) request(id uint32, end bool, pairs ...string) error {
	return p.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: p.fields(pairs...), EndStream: end, EndHeaders: true})
}

// basic are the headers of a valid request.
func basic(target, method, path string) []string {
	return []string{":method", method, ":scheme", "https", ":authority", target, ":path", path}
}

// ended reads until the connection or a stream ends, and says how: the status of a refusal, or
// "closed", "goaway", "reset".
func (p *h2Peer) ended() string {
	for {
		frame, err := p.ReadFrame()
		if err != nil {
			if netErr, ok := err.(net.Error); ok && netErr.Timeout() {
				return "nothing"
			}
			return "closed"
		}
		switch frame := frame.(type) {
		case *http2.GoAwayFrame:
			return "goaway"
		case *http2.RSTStreamFrame:
			return "reset"
		case *http2.MetaHeadersFrame:
			return frame.PseudoValue("status")
		}
	}
}

// TestInvalidStreams sends requests that HTTP/2 forbids. None reaches the server.
func TestInvalidStreams(t *testing.T) {
	t.Parallel()
	r := newHostileRig(t)
	var reached atomic.Int64
	target := r.server(func(_ http.ResponseWriter, req *http.Request) {
		reached.Add(1)
		t.Errorf("the server got %s %s %v", req.Method, req.RequestURI, req.Header)
	})
	with := func(more ...string) []string { return append(basic(target, "GET", "/"), more...) }
	for name, pairs := range map[string][]string{
		"CRLF in a value":          with("x", "a\r\nTransfer-Encoding: chunked"),
		"LF in a value":            with("x", "a\nb"),
		"NUL in a value":           with("x", "a\x00b"),
		"colon in a name":          with("x:y", "a"),
		"space in a name":          with("x y", "a"),
		"upper case in a name":     with("X-Y", "a"),
		"an empty name":            with("", "a"),
		"transfer-encoding":        with("transfer-encoding", "chunked"),
		"connection":               with("connection", "x-secret"),
		"upgrade":                  with("upgrade", "websocket"),
		"pseudo-header at the end": append([]string{":method", "GET", ":scheme", "https", ":path", "/", "x", "y"}, ":authority", target),
		"two paths":                with(":path", "/other"),
		"unknown pseudo-header":    append([]string{":x", "y"}, basic(target, "GET", "/")...),
		"no method":                {":scheme", "https", ":authority", target, ":path", "/"},
		"no path":                  {":method", "GET", ":scheme", "https", ":authority", target},
		"a path with a space":      basic(target, "GET", "/a HTTP/1.1\r\nX: y"),
		"a method with a space":    basic(target, "GET /hidden HTTP/1.1\r\nX:", "/"),
		"CONNECT":                  {":method", "CONNECT", ":authority", target},
	} {
		p := r.h2(target)
		_ = p.request(1, true, pairs...)
		if how := p.ended(); how == "200" || how == "nothing" {
			t.Errorf("%s: %s", name, how)
		}
		_ = p.conn.Close()
	}
	r.works(target)
}

// TestStreamNamesAnotherHost has :authority and :scheme differ from the tunnel. The tunnel's target
// gets the request, or nothing does.
func TestStreamNamesAnotherHost(t *testing.T) {
	t.Parallel()
	r := newHostileRig(t)
	other := r.server(func(http.ResponseWriter, *http.Request) { t.Error("a request reached the other server") })
	var reached atomic.Int64
	target := r.server(func(http.ResponseWriter, *http.Request) { reached.Add(1) })
	for _, pairs := range [][]string{
		basic(other, "GET", "/"),
		append(basic(target, "GET", "/"), "host", other),
		{":method", "GET", ":scheme", "http", ":authority", other, ":path", "/"},
		basic("user@"+other, "GET", "/"),
		basic(target, "GET", "//"+other+"/"),
		basic(target, "GET", "https://"+other+"/"),
	} {
		p := r.h2(target)
		_ = p.request(1, true, pairs...)
		if how := p.ended(); how == "nothing" {
			t.Errorf("%q is not answered", pairs)
		}
		_ = p.conn.Close()
	}
	if reached.Load() < 2 {
		t.Errorf("%d requests reached the target", reached.Load())
	}
}

// TestRapidReset opens streams and resets them at once. The proxy closes the connection, and few of
// the requests reach the server.
func TestRapidReset(t *testing.T) {
	t.Parallel()
	r := newHostileRig(t)
	var reached atomic.Int64
	target := r.server(func(_ http.ResponseWriter, req *http.Request) {
		reached.Add(1)
		<-req.Context().Done()
	})
	p := r.h2(target)
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_, _ = io.Copy(io.Discard, p.conn)
	}()
	const streams = 20_000
	sent := 0
	for id := uint32(1); sent < streams; id += 2 {
		if p.request(id, true, basic(target, "GET", "/")...) != nil || p.WriteRSTStream(id, http2.ErrCodeCancel) != nil {
			break
		}
		sent++
	}
	await.Receive(t, closed, "the end of the connection")
	if reached.Load() > 1000 {
		t.Errorf("%d of %d requests reached the server", reached.Load(), sent)
	}
	r.works(target)
}

// TestHeadersWithoutEnd sends CONTINUATION frames until the proxy has had enough.
func TestHeadersWithoutEnd(t *testing.T) {
	t.Parallel()
	r := newHostileRig(t)
	target := r.server(func(http.ResponseWriter, *http.Request) { t.Error("the server was reached") })
	p := r.h2(target)
	go func() { _, _ = io.Copy(io.Discard, p.conn) }()
	err := p.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: p.fields(basic(target, "GET", "/")...)})
	sent := 0
	for part := p.fields("x", strings.Repeat("y", 8<<10)); err == nil && sent < 64<<20; sent += len(part) {
		err = p.WriteContinuation(1, false, part)
	}
	if err == nil {
		t.Errorf("the proxy has read %d MB of headers", sent>>20)
	}
	r.works(target)
}

// TestFloods sends frames that cost the client nothing, and reads no answer. The proxy may close
// the connection; it must not keep more for it with each frame, and other clients are served.
func TestFloods(t *testing.T) {
	t.Parallel()
	for name, flood := range map[string]func(p *h2Peer, i int) error{
		"ping":              func(p *h2Peer, _ int) error { return p.WritePing(false, [8]byte{}) },
		"settings":          func(p *h2Peer, _ int) error { return p.WriteSettings() },
		"empty data":        func(p *h2Peer, _ int) error { return p.WriteData(1, false, nil) },
		"priority":          func(p *h2Peer, i int) error { return p.WritePriority(uint32(2*i+3), http2.PriorityParam{StreamDep: 1}) },
		"unknown frames":    func(p *h2Peer, _ int) error { return p.WriteRawFrame(0xfa, 0, 1, nil) },
		"window of 1 byte":  func(p *h2Peer, _ int) error { return p.WriteWindowUpdate(0, 1) },
		"reset of unopened": func(p *h2Peer, i int) error { return p.WriteRSTStream(uint32(2*i+3), http2.ErrCodeCancel) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newHostileRig(t)
			target := r.server(func(_ http.ResponseWriter, req *http.Request) { _, _ = io.Copy(io.Discard, req.Body) })
			p := r.h2(target)
			_ = p.request(1, false, basic(target, "POST", "/")...)
			_ = p.conn.SetWriteDeadline(time.Now().Add(2 * time.Second)) // a proxy that stops to read is right too
			for i := range 50_000 {
				if flood(p, i) != nil {
					break
				}
			}
			r.works(target)
		})
	}
}

// TestWindows has a client that never opens a window, and one that opens it too far.
func TestWindows(t *testing.T) {
	t.Run("closed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newHostileRig(t, overPipes)
			var sent atomic.Int64
			left := make(chan struct{})
			target := r.server(func(w http.ResponseWriter, req *http.Request) {
				defer close(left)
				for part := make([]byte, 64<<10); ; sent.Add(int64(len(part))) {
					if _, err := w.Write(part); err != nil {
						return
					}
				}
			})
			p := r.h2(target, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
			_ = p.request(1, true, basic(target, "GET", "/")...)
			<-left // the idle time ends it
			if n := sent.Load(); n > 8<<20 {
				t.Errorf("the server could send %d MB", n>>20)
			}
			r.works(target)
		})
	})
	t.Run("closed for small answers", func(t *testing.T) { // which net/http writes after the handler has returned
		synctest.Test(t, func(t *testing.T) {
			r := newHostileRig(t, overPipes)
			target := r.server(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "0123456789") })
			p := r.h2(target, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
			const requests = 50
			for i := range uint32(requests) {
				_ = p.request(2*i+1, true, basic(target, "GET", "/")...)
			}
			for ended := map[uint32]bool{}; len(ended) < requests; { // the idle time ends them; otherwise the bubble fails
				frame, err := p.ReadFrame()
				if err != nil {
					t.Fatalf("after %d: %v", len(ended), err)
				}
				if _, ok := frame.(*http2.RSTStreamFrame); ok {
					ended[frame.Header().StreamID] = true
				}
			}
			r.works(target)
		})
	})
	t.Run("too large", func(t *testing.T) {
		t.Parallel()
		r := newHostileRig(t)
		target := r.server(func(_ http.ResponseWriter, req *http.Request) { <-req.Context().Done() })
		for _, stream := range []uint32{0, 1} {
			p := r.h2(target)
			_ = p.request(1, true, basic(target, "GET", "/")...)
			_ = p.WriteWindowUpdate(stream, 1<<31-1)
			_ = p.WriteWindowUpdate(stream, 1<<31-1)
			if how := p.ended(); how == "nothing" || how == "200" {
				t.Errorf("window of stream %d: %s", stream, how)
			}
			_ = p.conn.Close()
		}
		r.works(target)
	})
}

// TestHostileHTTP2Servers has a server misuse HTTP/2 in its answer. The client gets 502 or an
// error, never a clean end.
func TestHostileHTTP2Servers(t *testing.T) {
	t.Parallel()
	ok := func(p *h2Peer, id uint32, pairs ...string) {
		_ = p.request(id, false, append([]string{":status", "200"}, pairs...)...)
	}
	for name, answer := range map[string]func(p *h2Peer, id uint32){
		"reset before the head":  func(p *h2Peer, id uint32) { _ = p.WriteRSTStream(id, http2.ErrCodeInternal) },
		"goaway before the head": func(p *h2Peer, id uint32) { _ = p.WriteGoAway(id, http2.ErrCodeInternal, nil); _ = p.conn.Close() },
		"reset without error": func(p *h2Peer, id uint32) {
			ok(p, id)
			_ = p.WriteData(id, false, []byte("begun"))
			_ = p.WriteRSTStream(id, http2.ErrCodeNo)
		},
		"reset in the body": func(p *h2Peer, id uint32) {
			ok(p, id)
			_ = p.WriteData(id, false, []byte("begun"))
			_ = p.WriteRSTStream(id, http2.ErrCodeCancel)
		},
		"close in the body": func(p *h2Peer, id uint32) { ok(p, id); _ = p.WriteData(id, false, []byte("begun")); _ = p.conn.Close() },
		"short of its length": func(p *h2Peer, id uint32) {
			ok(p, id, "content-length", "9")
			_ = p.WriteData(id, true, []byte("begun"))
		},
		"longer than its length": func(p *h2Peer, id uint32) {
			ok(p, id, "content-length", "3")
			_ = p.WriteData(id, true, []byte("begun"))
		},
		"data before the head":       func(p *h2Peer, id uint32) { _ = p.WriteData(id, true, []byte("begun")) },
		"no status":                  func(p *h2Peer, id uint32) { _ = p.request(id, true, "x", "y") },
		"a status that is no number": func(p *h2Peer, id uint32) { _ = p.request(id, true, ":status", "2x0") },
		"CRLF in a value":            func(p *h2Peer, id uint32) { _ = p.request(id, true, ":status", "200", "x", "a\r\nb: c") },
		"push": func(p *h2Peer, id uint32) {
			_ = p.WritePushPromise(http2.PushPromiseParam{StreamID: id, PromiseID: 2, BlockFragment: p.fields(basic("localhost", "GET", "/")...), EndHeaders: true})
		},
		"headers without end": func(p *h2Peer, id uint32) {
			_ = p.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: p.fields(":status", "200")})
			for part := p.fields("x", strings.Repeat("y", 8<<10)); p.WriteContinuation(id, false, part) == nil; {
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newHostileRig(t)
			var requests atomic.Int64
			target := r.rawServer([]string{"h2"}, func(conn net.Conn) {
				p := newH2Peer(conn)
				if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil {
					return
				}
				_ = p.WriteSettings()
				for {
					frame, err := p.ReadFrame()
					if err != nil {
						return
					}
					if head, is := frame.(*http2.MetaHeadersFrame); is {
						requests.Add(1)
						answer(p, head.StreamID)
					}
				}
			})
			resp, err := r.client("h2").Post("https://"+target+"/", "text/plain", strings.NewReader("body"))
			if n := requests.Load(); n != 1 {
				t.Errorf("the server got the request %d times", n)
			}
			if err != nil {
				if errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
				return // the stream was reset
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if resp.StatusCode != http.StatusBadGateway && (resp.StatusCode != http.StatusOK || err == nil) {
				t.Errorf("status %d, %v: %q", resp.StatusCode, err, body)
			}
		})
	}
}
