package flows

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// maxHead is the longest head of an answer that is read from an upgraded connection.
const maxHead = 64 << 10

// An upgradedConn is the connection of a client after an upgrade. The answer's head is written to
// it as well. Bytes are counted and not kept: messages of a WebSocket are masked and often
// compressed, so that secrets in them would not be found.
type upgradedConn struct {
	net.Conn
	x    *exchange
	from io.Reader // bytes that were read too early, then Conn

	mu       sync.Mutex
	head     []byte
	headRead bool // the head was read
}

func (u *upgradedConn) Read(p []byte) (int, error) {
	n, err := u.from.Read(p)
	u.x.mu.Lock()
	defer u.x.mu.Unlock()
	if !u.x.closed {
		u.x.request.add(p[:n], nil)
	}
	return n, err
}

func (u *upgradedConn) Write(p []byte) (int, error) {
	n, err := u.Conn.Write(p)
	u.mu.Lock()
	body := p[:n]
	if !u.headRead {
		body = u.readHead(body)
	}
	u.mu.Unlock()
	u.x.mu.Lock()
	defer u.x.mu.Unlock()
	if !u.x.closed {
		u.x.response.add(body, nil)
	}
	return n, err
}

// readHead collects the head of the answer and returns the bytes after it.
func (u *upgradedConn) readHead(p []byte) (body []byte) {
	u.head = append(u.head, p...)
	end := bytes.Index(u.head, []byte("\r\n\r\n"))
	if end < 0 && len(u.head) < maxHead {
		return nil
	}
	u.headRead = true
	answer, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(u.head)), nil)
	if end < 0 || err != nil {
		body, u.head = u.head, nil
		return body
	}
	body, u.head = u.head[end+4:], nil
	u.x.mu.Lock()
	defer u.x.mu.Unlock()
	if u.x.status == 0 {
		u.x.status, u.x.head = answer.StatusCode, time.Now()
		u.x.responseHeader = answer.Header
	}
	return body
}

// CloseWrite ends one direction, if the connection supports that, as in net and crypto/tls.
func (u *upgradedConn) CloseWrite() error {
	if c, ok := u.Conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return u.Conn.Close()
}
