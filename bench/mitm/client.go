//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"
)

// The versions of HTTP, in both directions.
const (
	http1 = "HTTP/1.1"
	http2 = "HTTP/2"
)

// callLimit is how long one call may take. A call that takes longer is a bug, not a measurement.
const callLimit = 30 * time.Second

// A route is a way to the server: directly, or through a proxy.
type route struct {
	protocol string
	server   string // host:port
	proxy    string // host:port, or empty
	roots    *x509.CertPool
}

const serverName = "localhost"

// target is the server as the requests name it.
func (r *route) target() string {
	_, port, _ := net.SplitHostPort(r.server)
	return net.JoinHostPort(serverName, port)
}

// dial connects, asks a proxy for a tunnel, and makes the TLS handshake.
func (r *route) dial(ctx context.Context) (*tls.Conn, error) {
	address := r.server
	if r.proxy != "" {
		address = r.proxy
	}
	conn, err := (&net.Dialer{Timeout: callLimit}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(callLimit)) // a connection that has just been made takes it
	if r.proxy != "" {
		if err := askTunnel(conn, r.target()); err != nil {
			conn.Close()
			return nil, err
		}
	}
	alpn := "http/1.1"
	if r.protocol == http2 {
		alpn = "h2"
	}
	secure := tls.Client(conn, &tls.Config{RootCAs: r.roots, ServerName: serverName, NextProtos: []string{alpn}})
	if err := secure.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	if got := secure.ConnectionState().NegotiatedProtocol; got != alpn && (got != "" || alpn == "h2") {
		conn.Close()
		return nil, fmt.Errorf("the peer speaks %q instead of %s", got, alpn)
	}
	return secure, conn.SetDeadline(time.Time{})
}

// askTunnel sends CONNECT. The peer may not say more than its answer before the handshake begins.
func askTunnel(conn net.Conn, target string) error {
	if _, err := fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %[1]s\r\n\r\n", target); err != nil {
		return err
	}
	var head []byte
	for !bytes.HasSuffix(head, []byte("\r\n\r\n")) {
		var b [1]byte
		if _, err := conn.Read(b[:]); err != nil {
			return fmt.Errorf("after %q: %w", head, err)
		}
		head = append(head, b[0])
	}
	if !bytes.HasPrefix(head, []byte("HTTP/1.1 200 ")) {
		return fmt.Errorf("CONNECT: %q", head)
	}
	return nil
}

// A client makes calls on connections of its own. In HTTP/1.1 it writes requests that were made
// beforehand and has no goroutines, because what it spends is noise in what it measures.
type client struct {
	route     *route
	conn      net.Conn // HTTP/1.1
	reader    *bufio.Reader
	prepared  string // which request it is
	request   []byte
	transport *http.Transport // HTTP/2, shared by all clients of a crowd
	buffer    bytes.Buffer
}

// A crowd is clients that call at the same time: in HTTP/1.1 each has a connection, in HTTP/2 each
// has a stream of the same.
type crowd []*client

// crowd connects clients, the first of which makes a call.
func (r *route) crowd(ctx context.Context, size int) (clients crowd, err error) {
	var shared *http.Transport
	if r.protocol == http2 {
		shared = r.transport()
	}
	for range size {
		c := &client{route: r, transport: shared}
		clients = append(clients, c)
		if shared != nil {
			continue
		}
		if err := c.connect(ctx); err != nil {
			clients.close()
			return nil, err
		}
	}
	if err := clients[0].call(ctx); err != nil { // and in HTTP/2 all have a connection now
		clients.close()
		return nil, err
	}
	return clients, nil
}

// connect makes the connection of a client for HTTP/1.1.
func (c *client) connect(ctx context.Context) error {
	conn, err := c.route.dial(ctx)
	if err == nil {
		c.conn, c.reader = conn, bufio.NewReader(conn)
	}
	return err
}

func (r *route) transport() *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP2(true)
	return &http.Transport{
		Protocols: protocols, DisableCompression: true,
		DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return r.dial(ctx) },
	}
}

func (clients crowd) close() {
	for _, c := range clients {
		if c.conn != nil {
			c.conn.Close()
		}
		if c.transport != nil {
			c.transport.CloseIdleConnections()
		}
	}
}

// call sends the document and insists on getting it back: a wrong answer may be quick.
func (c *client) call(ctx context.Context) error {
	resp, err := c.do(ctx, http.MethodPost, jsonPath, document)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	c.buffer.Reset()
	if _, err := c.buffer.ReadFrom(resp.Body); err != nil {
		return err
	}
	if !bytes.Equal(c.buffer.Bytes(), document) {
		return fmt.Errorf("not the server's answer: %.300s", c.buffer.Bytes())
	}
	return nil
}

// do makes a request; the caller closes the body. An answer other than 200 is an error.
func (c *client) do(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	var resp *http.Response
	var err error
	if c.transport == nil {
		resp, err = c.doPlainly(method, path, body)
	} else {
		var req *http.Request
		if req, err = http.NewRequestWithContext(ctx, method, "https://"+c.route.target()+path, bytes.NewReader(body)); err != nil {
			return nil, err
		}
		resp, err = c.transport.RoundTrip(req)
	}
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 300))
		resp.Body.Close()
		return nil, fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, text)
	}
	return resp, nil
}

func (c *client) doPlainly(method, path string, body []byte) (*http.Response, error) {
	if err := c.conn.SetDeadline(time.Now().Add(callLimit)); err != nil {
		return nil, err
	}
	key := method + path
	if c.prepared != key {
		c.prepared, c.request = key, c.requestBytes(method, path, body)
	}
	_, writeErr := c.conn.Write(c.request)
	// A request that is refused early has an answer, which says more than the broken connection.
	resp, err := http.ReadResponse(c.reader, nil)
	if err != nil {
		return nil, errors.Join(writeErr, err)
	}
	return resp, nil
}

func (c *client) requestBytes(method, path string, body []byte) []byte {
	head := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: bench/1.0\r\n", method, path, c.route.target())
	if body != nil {
		head += fmt.Sprintf("Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	}
	return append([]byte(head+"\r\n"), body...)
}

// follow reads the events of a stream and tells when each was sent and when it came, until there
// are no more or take says so.
func (c *client) follow(ctx context.Context, path string, take func(sent, came time.Time) (more bool)) error {
	resp, err := c.do(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	for lines := bufio.NewReader(resp.Body); ; {
		line, err := lines.ReadSlice('\n')
		came := time.Now()
		switch {
		case err == io.EOF && len(line) == 0:
			return nil
		case err != nil:
			return err
		case len(line) == 1:
			continue
		}
		sent, err := sentAt(line)
		if err != nil {
			return err
		}
		if !take(sent, came) {
			return nil
		}
	}
}

func readRoots(path string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s has no certificates", path)
	}
	return pool, nil
}
