package mitm

import (
	"context"
	"crypto/tls"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A clientConn is the connection of a client, from accept to close, with any protocol.
type clientConn struct {
	prefixed
	of   *registry
	once sync.Once

	host        string // the intercepted host; empty if there is none
	authority   string // host of the URLs of its requests, with the port unless it is 443
	destination string // destination of a redirected connection; empty if it is not redirected

	// start of the wait for another request, in Unix nanoseconds; 0 if it does not wait
	idle   atomic.Int64
	resets resetBucket

	// Writes have a deadline, for clients that do not read. It is extended now and then, unless
	// net/http or crypto/tls have set one.
	stall     time.Duration
	stallFrom atomic.Int64
	deadline  atomic.Bool
}

// Write fails if the client does not read for the time of stall.
func (c *clientConn) Write(p []byte) (int, error) {
	if now := time.Now(); !c.deadline.Load() && now.UnixNano()-c.stallFrom.Load() > int64(c.stall/8) {
		c.stallFrom.Store(now.UnixNano())
		_ = c.Conn.SetWriteDeadline(now.Add(c.stall))
	}
	return c.Conn.Write(p)
}

func (c *clientConn) SetWriteDeadline(t time.Time) error {
	c.trackDeadline(t)
	return c.Conn.SetWriteDeadline(t)
}

func (c *clientConn) SetDeadline(t time.Time) error {
	c.trackDeadline(t)
	return c.Conn.SetDeadline(t)
}

func (c *clientConn) trackDeadline(t time.Time) {
	c.deadline.Store(!t.IsZero())
	c.stallFrom.Store(0)
}

// Close closes the connection and frees its place.
func (c *clientConn) Close() error {
	c.once.Do(func() { c.of.remove(c) })
	return c.Conn.Close()
}

// abort closes the connection so that the client sees an error: with RST instead of an orderly end.
func (c *clientConn) abort() {
	if tcp, ok := c.Conn.(interface{ SetLinger(int) error }); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

type connKey struct{}

// connContext puts a connection into the context of its requests.
func connContext(ctx context.Context, c net.Conn) context.Context {
	if client := clientOf(c); client != nil {
		return context.WithValue(ctx, connKey{}, client)
	}
	return ctx
}

func connOf(ctx context.Context) *clientConn {
	c, _ := ctx.Value(connKey{}).(*clientConn)
	return c
}

// clientOf returns the connection below TLS.
func clientOf(c net.Conn) *clientConn {
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	client, _ := c.(*clientConn)
	return client
}

// Destination returns the address, as ip:port, that a redirected connection was made to, given the
// context of one of its requests. It returns "" if the client uses the proxy explicitly.
func Destination(ctx context.Context) string {
	if c := connOf(ctx); c != nil {
		return c.destination
	}
	return ""
}

// trackState records from the state of net/http whether a connection waits for a request.
func trackState(c net.Conn, state http.ConnState) {
	client := clientOf(c)
	if client == nil {
		return
	}
	idle := int64(0)
	if state == http.StateIdle {
		idle = time.Now().UnixNano()
	}
	client.idle.Store(idle)
}

// A registry has all open connections of clients, up to a maximum.
type registry struct {
	most int

	mu      sync.Mutex
	open    map[*clientConn]struct{}
	waiting []chan struct{} // closed when none is open
}

func (r *registry) init(most int) { r.most, r.open = most, map[*clientConn]struct{}{} }

// add gives a connection a place: a free one, or the place of the connection that has been idle
// longest. It returns nil if there is none.
func (r *registry) add(c net.Conn, stall time.Duration) *clientConn {
	client := &clientConn{prefixed: prefixed{Conn: c}, of: r, stall: stall}
	r.mu.Lock()
	var oldest *clientConn
	if len(r.open) >= r.most {
		if oldest = r.oldestIdle(); oldest == nil {
			r.mu.Unlock()
			return nil
		}
		delete(r.open, oldest)
	}
	r.open[client] = struct{}{}
	r.mu.Unlock()
	if oldest != nil {
		_ = oldest.Close()
	}
	return client
}

func (r *registry) oldestIdle() (oldest *clientConn) {
	since := int64(0)
	for c := range r.open {
		if idle := c.idle.Load(); idle > 0 && (oldest == nil || idle < since) {
			oldest, since = c, idle
		}
	}
	return oldest
}

func (r *registry) remove(c *clientConn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, c)
	if len(r.open) == 0 {
		for _, w := range r.waiting {
			close(w)
		}
		r.waiting = nil
	}
}

// wait returns when no connection is open.
func (r *registry) wait(ctx context.Context) error {
	r.mu.Lock()
	if len(r.open) == 0 {
		r.mu.Unlock()
		return nil
	}
	none := make(chan struct{})
	r.waiting = append(r.waiting, none)
	r.mu.Unlock()
	select {
	case <-none:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// cut aborts all connections.
func (r *registry) cut() {
	r.mu.Lock()
	all := slices.Collect(maps.Keys(r.open))
	r.mu.Unlock()
	for _, c := range all {
		c.abort()
	}
}

// A resetBucket counts the HTTP/2 streams that a client reset before they were answered. It leaks
// one per second.
type resetBucket struct {
	mu    sync.Mutex
	count int
	since time.Time
	full  bool
}

// maxResets is the maximum number of early resets of a connection. Attacks make thousands in a
// second.
const maxResets = 200

// add counts a reset and reports, once, that there are too many.
func (b *resetBucket) add(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if forgiven := int(now.Sub(b.since) / time.Second); forgiven > 0 {
		b.count, b.since = max(b.count-forgiven, 0), now
	}
	b.count++
	if b.full || b.count <= maxResets {
		return false
	}
	b.full = true
	return true
}
