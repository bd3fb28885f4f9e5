package daemon

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// connections bounds how many connections clients have open at the same time, before any key is asked for. A connection beyond the
// limit takes the place of the one that has been idle for the longest time between two requests; if there is none, it gets 503 with
// Retry-After and is closed. The owner's socket is not counted.
type connections struct {
	most   atomic.Int64 // 0: unlimited
	logger *slog.Logger

	mu       sync.Mutex
	open     map[*countedConn]struct{}
	refused  int64     // since the last line in the log
	reported time.Time // when that was

	lingering chan struct{} // has a place for each refused connection that is being closed
}

func newConnections(most int, logger *slog.Logger) *connections {
	c := &connections{logger: logger, open: map[*countedConn]struct{}{}, lingering: make(chan struct{}, maxLingering)}
	c.most.Store(int64(most))
	return c
}

// limit returns a listener that accepts connections within the limit.
func (c *connections) limit(l net.Listener) net.Listener {
	return &limitedListener{Listener: l, connections: c}
}

type limitedListener struct {
	net.Listener
	connections *connections
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
	of   *connections
	idle atomic.Int64 // since when it waits for another request, in Unix nanoseconds; 0: it does not
	once sync.Once
}

// Close also frees the place.
func (c *countedConn) Close() error {
	c.once.Do(func() {
		c.of.mu.Lock()
		defer c.of.mu.Unlock()
		delete(c.of.open, c)
	})
	return c.Conn.Close()
}

// CloseWrite is what net/http calls so that a client reads an answer to a request that was not read to its end.
func (c *countedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// take gives a connection a place, or returns nil.
func (c *connections) take(conn net.Conn) *countedConn {
	counted := &countedConn{Conn: conn, of: c}
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
		_ = oldest.Close() // a client that sends a request just now sees what it sees when a server ends an idle connection
	}
	return counted
}

func (c *connections) oldestIdle() (oldest *countedConn) {
	since := int64(0)
	for conn := range c.open {
		if idle := conn.idle.Load(); idle > 0 && (oldest == nil || idle < since) {
			oldest, since = conn, idle
		}
	}
	return oldest
}

// note is told by net/http what state a connection is in.
func (c *connections) note(conn net.Conn, state http.ConnState) {
	for {
		if counted, ok := conn.(*countedConn); ok {
			idle := int64(0)
			if state == http.StateIdle {
				idle = time.Now().UnixNano()
			}
			counted.idle.Store(idle)
			return
		}
		layer, ok := conn.(interface{ NetConn() net.Conn }) // TLS
		if !ok {
			return // the owner's socket
		}
		conn = layer.NetConn()
	}
}

const (
	// maxLingering is how many refused connections are closed slowly at the same time; further ones are closed at once.
	maxLingering = 64
	// lingerTime is how long a refused connection is read, so that its client gets the answer: the system resets a connection that is
	// closed while it has unread bytes.
	lingerTime = 500 * time.Millisecond
	// reportEvery is how often refused connections are logged.
	reportEvery = time.Minute
)

const tooManyConnections = "perigee has as many connections as limits.connections allows; try again in a moment\n"

// connectionRefusal is what a client beyond the limit gets. Which API it would have called is not known, so it is plain text.
const connectionRefusal = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 84\r\n" +
	"Retry-After: 2\r\nX-Perigee-Class: capacity\r\nConnection: close\r\n\r\n" + tooManyConnections

// refuse answers a connection that has no place, and closes it.
func (c *connections) refuse(conn net.Conn) {
	c.report()
	_ = conn.SetDeadline(time.Now().Add(lingerTime))
	_, _ = io.WriteString(conn, connectionRefusal) // the send buffer of a new connection has room for it
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
		_, _ = io.CopyN(io.Discard, conn, 64<<10)
		_ = conn.Close()
	}()
}

// report logs that connections are refused, once a minute.
func (c *connections) report() {
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
		c.logger.Warn("connections refused: limits.connections is reached", "refused", n, "limit", c.most.Load())
	}
}
