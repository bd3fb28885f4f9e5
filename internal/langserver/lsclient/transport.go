package lsclient

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"perigee/internal/lib/peeruser"
)

const dialTimeout = 5 * time.Second

// ownUsers checks which user a connection belongs to. After a language server has ended, a program
// of another user may get its port.
var ownUsers = sync.OnceValue(func() *peeruser.Check { return peeruser.NewCheck(context.Background()) })

var errForeign = errors.New("the port belongs to another user")

// dial connects to a process of a user that may run the language server.
func (o Options) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	check := ownUsers()
	if o.Users != nil {
		check = check.With(o.Users()...)
	}
	if !check.OwnServer(conn) {
		_ = conn.Close()
		return nil, errForeign
	}
	return conn, nil
}

// newHTTPClient returns a client that reaches this machine only: the host of a URL is not used,
// proxies are not used, and redirects are not followed. It may therefore accept any certificate;
// the certificate of the language server is self-signed and expires.
//
// Every call has a connection of its own. The language server can be killed at any time, and on a
// kept connection it would be unclear whether a message was sent before that.
func newHTTPClient(dial func(ctx context.Context, network, address string) (net.Conn, error)) *http.Client {
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			_, port, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			conn, err := dial(ctx, "tcp", net.JoinHostPort("127.0.0.1", port))
			if err != nil {
				return nil, err
			}
			return endWith(ctx, conn), nil
		},
		TLSClientConfig: &tls.Config{
			InsecureSkipVerify: true, //nolint:gosec // loopback, see above
			MinVersion:         tls.VersionTLS12,
			ClientSessionCache: tls.NewLRUClientSessionCache(8),
		},
		TLSHandshakeTimeout: dialTimeout,
		DisableKeepAlives:   true,
		DisableCompression:  true,
	}
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// callKey is the key of the context of a call, which ends its connection.
type callKey struct{}

// endWith closes a connection at the end of its call. The transport would otherwise finish a
// handshake with a port that does not answer, for a later call that never comes.
func endWith(ctx context.Context, conn net.Conn) net.Conn {
	call, ok := ctx.Value(callKey{}).(context.Context)
	if !ok {
		return conn
	}
	return callConn{conn, context.AfterFunc(call, func() { _ = conn.Close() })}
}

type callConn struct {
	net.Conn
	forget func() bool
}

// Close closes the connection.
func (c callConn) Close() error {
	c.forget()
	return c.Conn.Close()
}

// url returns the address of a method. The port without TLS is preferred.
func (e Endpoint) url(method string) string {
	scheme, port := "http", e.HTTP
	if port == 0 {
		scheme, port = "https", e.HTTPS
	}
	return scheme + "://127.0.0.1:" + strconv.Itoa(port) + Service + method
}

// Port returns the port that calls use, or 0 if none is known.
func (e Endpoint) Port() int {
	return cmp.Or(e.HTTP, e.HTTPS)
}
