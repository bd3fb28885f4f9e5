package mitm

import (
	"bytes"
	"io"
	"net"
	"sync"
	"time"
)

const (
	// holdTime is how long the head of a request waits for the start of its body.
	holdTime = 300 * time.Microsecond
	// maxHeld is the longest head that waits.
	maxHeld = 4 << 10
)

// A mergingConn is a connection to a server over HTTP/1.1. net/http writes the head of a request
// separately from its body. Here the head waits for a moment, so that it shares a TLS record and a
// system call with the start of the body, which is most often all of it. Bodies are copied through
// pooled buffers; net/http would make a new one for each request.
type mergingConn struct {
	net.Conn

	mu    sync.Mutex
	held  []byte // a head that waits
	timer *time.Timer
}

func (c *mergingConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.held) > 0 {
		held := len(c.held)
		n, err := c.send(append(c.held, p...))
		return max(n-held, 0), err
	}
	if len(p) > maxHeld || !isHeadWithBody(p) {
		return c.Conn.Write(p)
	}
	c.held = append(c.held, p...)
	if c.timer == nil {
		c.timer = time.AfterFunc(holdTime, c.release)
	} else {
		c.timer.Reset(holdTime)
	}
	return len(p), nil
}

// send writes p and releases the held head.
func (c *mergingConn) send(p []byte) (int, error) {
	c.timer.Stop()
	c.held = c.held[:0]
	return c.Conn.Write(p)
}

// release sends a head if its body does not come. If that fails, the next use of the connection
// fails as well.
func (c *mergingConn) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.held) > 0 {
		_, _ = c.send(c.held)
	}
}

// ReadFrom is used by net/http to copy a body.
func (c *mergingConn) ReadFrom(r io.Reader) (n int64, err error) {
	pooled := buffers.Get().(*[]byte)
	defer buffers.Put(pooled)
	buf := *pooled
	for {
		read, readErr := r.Read(buf[maxHeld:]) // the head goes before it
		if read > 0 {
			written, err := c.sendAfterHead(buf, read)
			n += int64(written)
			if err != nil {
				return n, err
			}
		}
		if readErr == io.EOF {
			return n, nil
		}
		if readErr != nil {
			return n, readErr
		}
	}
}

// sendAfterHead writes a part of a body, which starts at maxHeld, after the head that waits, if
// there is one.
func (c *mergingConn) sendAfterHead(buf []byte, size int) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	held := len(c.held)
	if held == 0 {
		return c.Conn.Write(buf[maxHeld : maxHeld+size])
	}
	copy(buf[maxHeld-held:], c.held)
	n, err := c.send(buf[maxHeld-held : maxHeld+size])
	return max(n-held, 0), err
}

// Close drops a head that waits.
func (c *mergingConn) Close() error {
	err := c.Conn.Close() // first: it ends a Write that has the lock
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = nil
	if c.timer != nil {
		c.timer.Stop()
	}
	return err
}

// CloseWrite is used by protocols that a connection was upgraded to.
func (c *mergingConn) CloseWrite() error { return closeWrite(c.Conn) }

var (
	headEnd     = []byte("\r\n\r\n")
	headLength  = []byte("\r\nContent-Length: ")
	headChunked = []byte("\r\nTransfer-Encoding: chunked\r\n")
	headExpect  = []byte("\r\nExpect: ")
)

// isHeadWithBody reports whether bytes are the head of a request that is followed by a body at
// once. If it is wrong, the bytes are late by holdTime.
func isHeadWithBody(p []byte) bool {
	if !bytes.HasSuffix(p, headEnd) || bytes.Contains(p, headExpect) {
		return false
	}
	if _, length, found := bytes.Cut(p, headLength); found {
		return length[0] != '0'
	}
	return bytes.Contains(p, headChunked)
}
