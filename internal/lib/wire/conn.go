package wire

import (
	"context"
	"io"
	"net"
	"sync"
	"time"
)

// connectTimeout is how long a TCP connection may take, and then again the handshakes of a proxy
// and of TLS.
const connectTimeout = 10 * time.Second

// A connector makes connections. One that has not carried a request after the time-out of its
// handshake is closed; Transport takes the deadline away when it hands a connection to a request.
type connector struct {
	connect    func(ctx context.Context, network, address string) (net.Conn, error)
	handshake  time.Duration
	ackTimeout time.Duration
}

func newConnector() *connector {
	dialer := &net.Dialer{Timeout: connectTimeout, KeepAliveConfig: keepAlive, Control: control}
	return &connector{connect: dialer.DialContext, handshake: connectTimeout, ackTimeout: ackTimeout}
}

func (c *connector) dial(ctx context.Context, network, address string) (net.Conn, error) {
	made, err := c.connect(ctx, network, address)
	if err != nil {
		return nil, err
	}
	if err := made.SetDeadline(time.Now().Add(c.handshake)); err != nil {
		_ = made.Close()
		return nil, err
	}
	kept := &conn{Conn: made}
	kept.acks.init(made, c.ackTimeout)
	return kept, nil
}

// A conn copies request bodies to the provider through buffers that are used again. net/http would
// make a new one of 32 KB for each call, which is more garbage than everything else together.
// Behind TLS that plays no part.
//
// It also detects written bytes that are not acknowledged.
type conn struct {
	net.Conn
	acks ackCheck
}

func (c *conn) Write(p []byte) (int, error) {
	c.acks.wrote()
	defer c.acks.wrote() // a check may have come before the bytes did
	return c.Conn.Write(p)
}

// ReadFrom implements io.ReaderFrom: net/http copies a body to a connection with it.
func (c *conn) ReadFrom(r io.Reader) (n int64, err error) {
	if limited, ok := r.(*io.LimitedReader); ok {
		if body, ok := limited.R.(*bodyReader); ok && body.left <= limited.N {
			c.acks.wrote()
			defer c.acks.wrote()
			return body.WriteTo(c.Conn) // all of it is in memory: there is nothing to copy
		}
	}
	buf := copyBuffers.Get().(*[]byte)
	defer copyBuffers.Put(buf)
	// Other methods of c and r are hidden, because io.CopyBuffer would call them instead.
	return io.CopyBuffer(struct{ io.Writer }{c}, struct{ io.Reader }{r}, *buf)
}

var copyBuffers = sync.Pool{New: func() any { b := make([]byte, 64<<10); return &b }}
