package mitm

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
)

var errNotTLS = errors.New("not a TLS handshake")

// readHello reads the ClientHello of a connection and returns the server name in it, in lower
// case, or "" if it has none. The bytes that were read are returned in any case, so that they can
// be forwarded. An error of r is returned unchanged. A malformed message, or one of more than 64
// KiB, which crypto/tls does not read, is errNotTLS.
func readHello(r io.Reader) (name string, read []byte, err error) {
	conn, seen := &helloConn{from: r}, false
	stop := func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		name, seen = strings.ToLower(hello.ServerName), true
		return nil, errors.New("the message is answered later, or by another server")
	}
	_ = tls.Server(conn, &tls.Config{GetConfigForClient: stop}).Handshake()
	switch {
	case seen:
		return name, conn.read, nil
	case conn.err != nil:
		return "", conn.read, conn.err
	}
	return "", conn.read, errNotTLS
}

// A helloConn keeps bytes that are read, and drops bytes that are written.
type helloConn struct {
	net.Conn // nil; only Read and Write are called
	from     io.Reader
	read     []byte
	err      error // of from
}

func (c *helloConn) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.read = append(c.read, p[:n]...)
	if n > 0 {
		return n, nil // an error is returned again by the next Read
	}
	c.err = err
	return 0, err
}

func (c *helloConn) Write(p []byte) (int, error) { return len(p), nil }
