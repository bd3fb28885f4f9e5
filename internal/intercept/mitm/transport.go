package mitm

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"perigee/internal/lib/netguard"
)

// NewTransport returns a transport for the requests of intercepted hosts. Certificates of servers
// are always verified, and bodies are not changed. A request with ProtoMajor 2, such as one that
// came over HTTP/2, is sent over HTTP/2 if the server offers it; any other one over HTTP/1.1. If
// the context of a request has a Destination, the request goes there, and the certificate must be
// valid for the host of the URL. The transport has a method CloseIdleConnections.
func NewTransport(opts TransportOptions) (http.RoundTripper, error) {
	dial, err := Dialer(opts)
	if err != nil {
		return nil, err
	}
	roots, err := rootsWith(opts.CAFile)
	if err != nil {
		return nil, err
	}
	return &transport{
		http1: newHTTPTransport(opts.Proxy, secureDialer(dial, roots, "http/1.1"), dial, "http/1.1"),
		http2: newHTTPTransport(opts.Proxy, secureDialer(dial, roots, "h2", "http/1.1"), dial, "h2"),
	}, nil
}

// rootsWith returns a function that returns the roots of the system and of a file, or nil for the
// roots of the system alone. It is called for the first connection, because the roots of the
// system take 4 MB.
func rootsWith(file string) (func() *x509.CertPool, error) {
	if file == "" {
		return func() *x509.CertPool { return nil }, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("upstream CA: %w; name a file with certificates in PEM", err)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("upstream CA: %s has no certificate in PEM", file)
	}
	return sync.OnceValue(func() *x509.CertPool {
		roots, err := x509.SystemCertPool()
		if err != nil {
			roots = x509.NewCertPool()
		}
		roots.AppendCertsFromPEM(text)
		return roots
	}), nil
}

// secureDialer returns a function that connects with TLS and offers protocols.
func secureDialer(dial dialFunc, roots func() *x509.CertPool, protocols ...string) dialFunc {
	sessions := tls.NewLRUClientSessionCache(64)
	return func(ctx context.Context, _, address string) (net.Conn, error) {
		address, name, err := target(address)
		if err != nil {
			return nil, err
		}
		return dialTLS(ctx, dial, address, &tls.Config{
			ServerName:                  name,
			MinVersion:                  tls.VersionTLS12,
			RootCAs:                     roots(),
			NextProtos:                  protocols,
			ClientSessionCache:          sessions,
			DynamicRecordSizingDisabled: true,
		})
	}
}

// newHTTPTransport returns a transport for HTTP/1.1 and, with the protocol h2, HTTP/2.
func newHTTPTransport(proxy *url.URL, secure, plain dialFunc, protocol string) *http.Transport {
	t := &http.Transport{
		DialContext:            plain,
		DialTLSContext:         secure,
		MaxIdleConns:           256,
		MaxIdleConnsPerHost:    256,
		IdleConnTimeout:        90 * time.Second,
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: maxHeader,
		DisableCompression:     true,
		Protocols:              &http.Protocols{},
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
	}
	t.Protocols.SetHTTP1(true)
	t.Protocols.SetHTTP2(protocol == "h2")
	if proxy != nil && proxy.Scheme == "http" {
		t.Proxy = func(r *http.Request) (*url.URL, error) {
			if r.URL.Scheme != "http" || netguard.IsLoopback(r.URL.Hostname()) {
				return nil, nil // dial goes through the proxy
			}
			return proxy, nil
		}
	}
	return t
}

// newPlainTransport returns a transport for http:// requests.
func newPlainTransport(dial dialFunc) *http.Transport {
	return &http.Transport{
		DialContext:            dial,
		MaxIdleConnsPerHost:    64,
		IdleConnTimeout:        90 * time.Second,
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: maxHeader,
		DisableCompression:     true,
	}
}

// dialTLS connects and makes the handshake.
func dialTLS(ctx context.Context, dial dialFunc, address string, config *tls.Config) (net.Conn, error) {
	c, err := dial(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	secure := tls.Client(c, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = c.Close()
		return nil, err
	}
	if secure.ConnectionState().NegotiatedProtocol == "h2" {
		return secure, nil
	}
	return &mergingConn{Conn: secure}, nil
}

// A transport sends requests over the HTTP version that they came with.
type transport struct{ http1, http2 *http.Transport }

func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if destination := Destination(r.Context()); destination != "" && r.URL.Scheme == "https" {
		var err error
		if r, err = redirected(r, destination); err != nil {
			return nil, err
		}
	}
	if r.ProtoMajor == 2 {
		return t.http2.RoundTrip(r)
	}
	return t.http1.RoundTrip(r)
}

// CloseIdleConnections closes the connections that no request uses.
func (t *transport) CloseIdleConnections() {
	t.http1.CloseIdleConnections()
	t.http2.CloseIdleConnections()
}

// redirected returns a request with a URL that names both the destination and the host, so that
// net/http does not share connections between requests with the same host and different
// destinations. The form is ip=port=host, with _ for the colons of IPv6; target reads it.
func redirected(r *http.Request, destination string) (*http.Request, error) {
	ip, port, err := net.SplitHostPort(destination)
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, fmt.Errorf("destination of a redirected connection: %w", err)
	}
	clone := *r
	u := *r.URL
	clone.URL = &u
	if clone.Host == "" {
		clone.Host = u.Host
	}
	u.Host = strings.ReplaceAll(ip, ":", "_") + "=" + port + "=" + u.Host
	return &clone, nil
}

// target returns the address to connect to for the address of a URL, and the name that its
// certificate must have.
func target(address string) (dialed, name string, err error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return "", "", err
	}
	parts := strings.SplitN(host, "=", 3)
	if len(parts) < 3 {
		return address, host, nil
	}
	return net.JoinHostPort(strings.ReplaceAll(parts[0], "_", ":"), parts[1]), parts[2], nil
}
