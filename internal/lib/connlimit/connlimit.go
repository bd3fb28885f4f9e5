// Package connlimit bounds the connections of clients and the memory that their request heads take,
// before any key is checked.
package connlimit

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// A Limiter limits how many connections clients have open at the same time, and how much memory
// they hold, before any key is checked. A connection beyond the limit replaces the one that has
// been idle for the longest time between two requests; if there is none, it gets 503 with
// Retry-After and is closed. So does one with a head larger than freeHead while the heads of other
// connections have filled maxHeads. On an idle HTTP/2 connection everything that arrives counts as
// a head, because frames are not parsed here; such connections are closed first.
type Limiter struct {
	most     atomic.Int64 // 0 if unlimited
	heads    atomic.Int64 // bytes beyond freeHead of all heads that are being read
	maxHeads atomic.Int64
	draining atomic.Bool
	logger   *slog.Logger

	Encrypted bool // refusals are not written, because they would not be part of TLS

	mu       sync.Mutex
	open     map[*countedConn]struct{}
	refused  int64     // since the last line in the log
	reported time.Time // when that was

	lingering chan struct{} // has a place for each refused connection that is being closed
}

// freeHead is how much of a head does not count: most clients send less.
const freeHead = 4 << 10

// New returns a Limiter without limits; Apply sets them.
func New(logger *slog.Logger) *Limiter {
	return &Limiter{logger: logger, open: map[*countedConn]struct{}{}, lingering: make(chan struct{}, maxLingering)}
}

// Apply sets the limits: on connections, and on heads a thirty-second of limits.memory, of which
// net/http needs about twice as much.
func (c *Limiter) Apply(most int, memory int64) {
	c.most.Store(int64(most))
	c.maxHeads.Store(memory / 32)
}

// Listener returns a listener that accepts connections within the limit.
func (c *Limiter) Listener(l net.Listener) net.Listener {
	return &limitedListener{Listener: l, connections: c}
}

type limitedListener struct {
	net.Listener
	connections *Limiter
}

// Accept waits for the next connection that has a place, and refuses those that have none.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if counted := l.connections.take(conn); counted != nil {
			return counted, nil
		}
		l.connections.refuse(conn)
	}
}

// A countedConn has a place among the open connections until it is closed.
type countedConn struct {
	net.Conn
	of *Limiter
	// idle is when the connection began to wait for another request, in Unix nanoseconds, or 0 if
	// it does not wait.
	idle atomic.Int64
	once sync.Once

	opened    time.Time
	requested atomic.Bool // its first request has reached a handler

	// head is how many bytes were read since the last request, or -1 while a request is being
	// answered.
	head    atomic.Int64
	refused atomic.Bool

	// secure is the TLS layer above the connection, or nil if there is none. It is set before the
	// first byte is read.
	secure *tls.Conn
	http2  atomic.Bool // known when the connection is idle for the first time
}

// Close also frees the place.
func (c *countedConn) Close() error {
	c.once.Do(func() {
		c.setHead(-1)
		c.of.mu.Lock()
		defer c.of.mu.Unlock()
		delete(c.of.open, c)
	})
	return c.Conn.Close()
}

// Read counts the bytes of heads.
func (c *countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	head := c.head.Load()
	if head < 0 || n <= 0 {
		return n, err
	}
	before := max(head-freeHead, 0)
	if !c.head.CompareAndSwap(head, head+int64(n)) {
		return n, err // the request has begun since
	}
	more := max(head+int64(n)-freeHead, 0) - before
	if more > 0 && c.of.heads.Add(more) > c.of.maxHeads.Load() && !c.of.freeHeads(c) && c.refused.CompareAndSwap(false, true) {
		c.of.report("request heads refused: too many large ones are being read")
		c.refuseHead()
		return 0, errTooManyHeads
	}
	return n, err
}

// errTooManyHeads ends the reading of a head. net/http takes it for an error of the network and
// writes no answer of its own.
var errTooManyHeads = &net.OpError{Op: "read", Net: "tcp", Err: errors.New("too many large request heads")}

// freeHeads closes idle HTTP/2 connections, that with the largest count first, until the heads fit.
// It reports whether they do.
func (c *Limiter) freeHeads(reader *countedConn) bool {
	for c.heads.Load() > c.maxHeads.Load() {
		largest := c.largestIdleHTTP2()
		if largest == nil || largest == reader {
			return false
		}
		_ = largest.Close()
	}
	return true
}

func (c *Limiter) largestIdleHTTP2() (largest *countedConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	most := int64(freeHead)
	for conn := range c.open {
		if head := conn.head.Load(); conn.http2.Load() && conn.idle.Load() > 0 && head > most {
			largest, most = conn, head
		}
	}
	return largest
}

// refuseHead answers a request before its head is read to its end, and continues to read for a
// moment so that the client gets the answer. It ends the count of the head first: the bytes read
// after that are discarded.
func (c *countedConn) refuseHead() {
	c.setHead(-1)
	if c.http2.Load() {
		return
	}
	_ = c.SetDeadline(time.Now().Add(lingerTime))
	if c.secure == nil {
		_, _ = io.WriteString(c.Conn, tooManyHeads)
	} else {
		c.writeSecurely(tooManyHeads)
	}
	_ = c.CloseWrite()
	_, _ = io.CopyN(io.Discard, c.Conn, lingerBytes)
}

// writeSecurely writes through TLS. That waits for the end of the handshake, which would wait for
// the read that this is called from if it is not over; the deadline of the connection ends both.
func (c *countedConn) writeSecurely(text string) {
	written := make(chan struct{})
	go func() {
		defer close(written)
		_, _ = io.WriteString(c.secure, text)
		_ = c.secure.CloseWrite()
	}()
	select {
	case <-written:
	case <-time.After(lingerTime):
	}
}

// setHead starts the count anew, or ends it with -1.
func (c *countedConn) setHead(head int64) {
	if before := c.head.Swap(head); before > freeHead {
		c.of.heads.Add(freeHead - before)
	}
}

// Handler returns a handler that ends the count of the head, which has been read, and has the
// connection closed after the answer once Drain was called.
func (c *Limiter) Handler(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if conn, ok := r.Context().Value(connKey{}).(*countedConn); ok {
			conn.setHead(-1)
			conn.requested.Store(true)
		}
		if c.draining.Load() {
			w.Header().Set("Connection", "close")
		}
		h.ServeHTTP(w, r)
	})
}

// connKey is where the context of a request has its connection.
type connKey struct{}

// ConnContext puts a connection into the context of its requests.
func (c *Limiter) ConnContext(ctx context.Context, conn net.Conn) context.Context {
	if counted := countedOf(conn); counted != nil {
		counted.secure, _ = conn.(*tls.Conn)
		return context.WithValue(ctx, connKey{}, counted)
	}
	return ctx
}

// countedOf finds the counted connection below TLS; nil if there is none, as on the owner's socket.
func countedOf(conn net.Conn) *countedConn {
	for {
		if counted, ok := conn.(*countedConn); ok {
			return counted
		}
		layer, ok := conn.(interface{ NetConn() net.Conn }) // TLS
		if !ok {
			return nil
		}
		conn = layer.NetConn()
	}
}

// CloseWrite is called by net/http so that a client reads an answer to a request that was not read
// to its end.
func (c *countedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// take gives a connection a place, or returns nil.
func (c *Limiter) take(conn net.Conn) *countedConn {
	counted := &countedConn{Conn: conn, of: c, opened: time.Now()}
	c.mu.Lock()
	most := c.most.Load()
	var oldest *countedConn
	if most > 0 && int64(len(c.open)) >= most {
		if oldest = c.oldestIdle(); oldest == nil {
			c.mu.Unlock()
			return nil
		}
		delete(c.open, oldest)
	}
	c.open[counted] = struct{}{}
	c.mu.Unlock()
	if oldest != nil {
		// A client that sends a request now gets the same error as from a server that closes an
		// idle connection.
		_ = oldest.Close()
	}
	return counted
}

func (c *Limiter) oldestIdle() (oldest *countedConn) {
	since := int64(0)
	for conn := range c.open {
		if idle := conn.idle.Load(); idle > 0 && (oldest == nil || idle < since) {
			oldest, since = conn, idle
		}
	}
	return oldest
}

// ConnState takes from net/http which state a connection is in.
func (c *Limiter) ConnState(conn net.Conn, state http.ConnState) {
	counted := countedOf(conn)
	if counted == nil {
		return
	}
	idle := int64(0)
	if state == http.StateIdle {
		idle = time.Now().UnixNano()
		if counted.secure != nil && counted.secure.ConnectionState().NegotiatedProtocol == "h2" {
			counted.http2.Store(true)
		}
		counted.setHead(0)
	}
	counted.idle.Store(idle)
}

const (
	// maxLingering is how many refused connections are closed slowly at the same time; further ones
	// are closed at once.
	maxLingering = 64
	// lingerTime is how long a refused connection is read, so that its client gets the answer: the
	// system resets a connection that is closed while it has unread bytes.
	lingerTime = 500 * time.Millisecond
	// lingerBytes is how much is read then.
	lingerBytes = 64 << 10
	// reportEvery is how often refused connections are logged.
	reportEvery = time.Minute
)

// refusalText returns the answer for a client that is refused. The API that it would have called is
// not known, so it is plain text.
func refusalText(text string) string {
	return fmt.Sprintf("HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\n"+
		"Retry-After: 2\r\nX-Perigee-Class: capacity\r\nConnection: close\r\n\r\n%s", len(text), text)
}

var (
	tooManyConnections = refusalText("perigee has as many connections as limits.connections allows; try again in a moment\n")
	tooManyHeads       = refusalText("perigee is reading too many large request heads; try again in a moment\n")
)

// refuse answers a connection that has no place, and closes it.
func (c *Limiter) refuse(conn net.Conn) {
	c.report("connections refused: limits.connections is reached")
	_ = conn.SetDeadline(time.Now().Add(lingerTime))
	if !c.Encrypted {
		// The send buffer of a new connection has room for the text.
		_, _ = io.WriteString(conn, tooManyConnections)
	}
	select {
	case c.lingering <- struct{}{}:
	default:
		_ = conn.Close()
		return
	}
	go func() {
		defer func() { <-c.lingering }()
		if half, ok := conn.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
		_, _ = io.CopyN(io.Discard, conn, lingerBytes)
		_ = conn.Close()
	}()
}

// report logs that connections are refused, once a minute.
func (c *Limiter) report(why string) {
	c.mu.Lock()
	c.refused++
	n := c.refused
	now := time.Now()
	due := now.Sub(c.reported) >= reportEvery
	if due {
		c.refused, c.reported = 0, now
	}
	c.mu.Unlock()
	if due {
		c.logger.Warn(why, "refused", n, "limit", c.most.Load())
	}
}
