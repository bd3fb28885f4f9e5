package mitm

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/net/proxy"

	"perigee/internal/lib/netguard"
)

// TransportOptions configure the connections to servers.
type TransportOptions struct {
	CAFile string // PEM with additional roots for the certificates of servers
	// http or socks5, with a user and password if it has any; nil for direct connections. Loopback
	// addresses are always reached directly.
	Proxy *url.URL

	direct dialFunc // makes the connections; a net.Dialer if nil
}

// connectTimeout bounds a TCP connection, and then again the handshakes of a proxy and of TLS.
const connectTimeout = 10 * time.Second

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// Dialer returns a function for Options.Dial, which connects through the proxy. A SOCKS5 proxy
// resolves names itself.
func Dialer(opts TransportOptions) (func(ctx context.Context, network, address string) (net.Conn, error), error) {
	direct := opts.direct
	if direct == nil {
		direct = (&net.Dialer{Timeout: connectTimeout}).DialContext
	}
	if opts.Proxy == nil {
		return direct, nil
	}
	var handshake func(net.Conn, string) (net.Conn, error)
	port := opts.Proxy.Port()
	switch opts.Proxy.Scheme {
	case "http":
		handshake = func(c net.Conn, address string) (net.Conn, error) { return connectHTTP(c, opts.Proxy, address) }
		port = cmp.Or(port, "80")
	case "socks5", "socks5h":
		handshake = func(c net.Conn, address string) (net.Conn, error) { return connectSOCKS(c, opts.Proxy.User, address) }
		port = cmp.Or(port, "1080")
	default:
		return nil, fmt.Errorf("a proxy with the scheme %q: use http:// or socks5://", opts.Proxy.Scheme)
	}
	if opts.Proxy.Hostname() == "" {
		return nil, errors.New("the URL of the proxy has no host")
	}
	proxy := net.JoinHostPort(opts.Proxy.Hostname(), port)
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if host, _, err := net.SplitHostPort(address); address == proxy || err == nil && netguard.IsLoopback(host) {
			return direct(ctx, network, address)
		}
		c, err := direct(ctx, network, proxy)
		if err != nil {
			return nil, fmt.Errorf("proxy %s: %w", proxy, err)
		}
		through, err := withDeadline(ctx, c, func() (net.Conn, error) { return handshake(c, address) })
		if err != nil {
			_ = c.Close()
			return nil, fmt.Errorf("proxy %s: %w", proxy, err)
		}
		return through, nil
	}, nil
}

// withDeadline bounds a handshake in time, and ends it with ctx.
func withDeadline(ctx context.Context, c net.Conn, handshake func() (net.Conn, error)) (net.Conn, error) {
	_ = c.SetDeadline(time.Now().Add(connectTimeout))
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	through, err := handshake()
	if !stop() {
		return nil, ctx.Err()
	}
	if err == nil {
		err = c.SetDeadline(time.Time{})
	}
	return through, err
}

// connectHTTP connects to an address through an HTTP proxy.
func connectHTTP(c net.Conn, proxy *url.URL, address string) (net.Conn, error) {
	request := "CONNECT " + address + " HTTP/1.1\r\nHost: " + address + "\r\n"
	if proxy.User != nil {
		password, _ := proxy.User.Password()
		request += "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(proxy.User.Username()+":"+password)) + "\r\n"
	}
	if _, err := io.WriteString(c, request+"\r\n"); err != nil {
		return nil, err
	}
	limited := &io.LimitedReader{R: c, N: maxHeader}
	reader := bufio.NewReaderSize(limited, 1<<10)
	answer, err := http.ReadResponse(reader, &http.Request{Method: http.MethodConnect})
	if err != nil {
		return nil, fmt.Errorf("no answer to CONNECT: %w", err)
	}
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it does not connect to %s: %d %s", address, answer.StatusCode, http.StatusText(answer.StatusCode))
	}
	if n := reader.Buffered(); n > 0 {
		early, _ := reader.Peek(n)
		return &prefixed{Conn: c, prefix: bytes.Clone(early)}, nil
	}
	return c, nil
}

// A prefixed connection returns bytes that were read already first.
type prefixed struct {
	net.Conn
	prefix []byte
}

func (c *prefixed) Read(p []byte) (int, error) {
	if len(c.prefix) > 0 {
		n := copy(p, c.prefix)
		if c.prefix = c.prefix[n:]; len(c.prefix) == 0 {
			c.prefix = nil
		}
		return n, nil
	}
	return c.Conn.Read(p)
}

// CloseWrite ends one direction. A client can then read an answer although its request was not
// read to the end.
func (c *prefixed) CloseWrite() error { return closeWrite(c.Conn) }

// closeWrite ends one direction of a connection that supports it, as in net and crypto/tls.
func closeWrite(c any) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// connectSOCKS connects to an address through a SOCKS5 proxy.
func connectSOCKS(c net.Conn, user *url.Userinfo, address string) (net.Conn, error) {
	var auth *proxy.Auth
	if user != nil {
		auth = &proxy.Auth{User: user.Username()}
		auth.Password, _ = user.Password()
	}
	dialer, err := proxy.SOCKS5("tcp", c.RemoteAddr().String(), auth, connected{c})
	if err != nil {
		return nil, err
	}
	return dialer.Dial("tcp", address)
}

// A connected dialer returns an existing connection.
type connected struct{ net.Conn }

func (c connected) Dial(string, string) (net.Conn, error) { return c.Conn, nil }
