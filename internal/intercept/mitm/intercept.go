package mitm

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"perigee/internal/lib/redact"
)

// tlsConfig returns the configuration for clients. All connections share it, so that session
// tickets of one connection are valid for the next.
func (p *Proxy) tlsConfig() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"h2", "http/1.1"},
		GetCertificate: p.certificate,
		// Clients are on this machine: post-quantum key exchange only costs time on loopback.
		CurvePreferences:            []tls.CurveID{tls.X25519, tls.CurveP256, tls.CurveP384},
		DynamicRecordSizingDisabled: true,
	}
}

// certificate returns a leaf for the name that the client requests, if that is intercepted, or for
// the host of the tunnel.
func (p *Proxy) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	client, ok := hello.Conn.(*clientConn)
	if !ok {
		return nil, fmt.Errorf("a connection of type %T", hello.Conn)
	}
	name := client.host
	if p.opts.Hosts.Match(hello.ServerName) {
		name = hello.ServerName
	}
	return p.opts.Authority.Leaf(name)
}

// intercept makes the TLS handshake and hands the connection to the server of intercepted requests.
func (p *Proxy) intercept(client *clientConn) {
	secure := tls.Server(client, p.tls)
	// A client that sends nothing is disconnected after HeaderTimeout, also on a busy machine.
	ctx, cancel := context.WithTimeout(context.Background(), p.opts.HeaderTimeout*9/10)
	defer cancel()
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = client.Close()
		p.log.Warn("TLS handshake with a client failed: does it trust the certificate authority of the proxy?", "host", client.host,
			"client", client.RemoteAddr().String(), "error", err)
		return
	}
	if !p.incoming.give(secure) {
		_ = client.Close()
	}
}

// serveIntercepted answers a request of an intercepted host.
func (p *Proxy) serveIntercepted(w http.ResponseWriter, r *http.Request) {
	client := connOf(r.Context())
	if client == nil || r.Method == http.MethodConnect {
		refuse(w, http.StatusBadRequest, "CONNECT inside of a tunnel")
		return
	}
	r.URL.Scheme, r.URL.Host, r.URL.User = "https", client.authority, nil
	p.handle(w, r)
}

// handle calls the handler.
func (p *Proxy) handle(w http.ResponseWriter, r *http.Request) {
	client := connOf(r.Context())
	if r.Body != nil && r.Body != http.NoBody {
		body := newIdleBody(r.Body, w, p.opts.IdleTimeout)
		defer body.stop(p.opts.HeaderTimeout)
		r = r.WithContext(r.Context()) // net/http checks the body of the request that it has made
		r.Body = body
	}
	finished := false
	defer func() {
		if finished {
			return
		}
		if reason := recover(); reason != nil && reason != http.ErrAbortHandler { //nolint:errorlint // panics with exactly this value
			p.log.Error("panic in the handler of intercepted requests", "url", redact.URL(r.URL), "panic", fmt.Sprint(reason), "stack", string(debug.Stack()))
		}
		if !r.ProtoAtLeast(1, 1) && client != nil {
			// the end of the connection ends the answer, and must not look like a complete one
			client.abort()
		}
		panic(http.ErrAbortHandler)
	}()
	if r.ProtoMajor != 2 {
		p.opts.Handler.ServeHTTP(w, r)
		finished = true
		return
	}
	stream := newStream(w, p.opts.IdleTimeout)
	defer func() {
		if !stream.began && r.Context().Err() != nil && client.resets.add(time.Now()) {
			p.log.Warn("connection closed: the client resets its streams before they are answered", "host", client.host,
				"client", client.RemoteAddr().String(), "resets", maxResets)
			client.abort()
		}
		stream.stop()
	}()
	p.opts.Handler.ServeHTTP(stream, r)
	finished = true
}

// A stream is a ResponseWriter of HTTP/2. It records whether the answer has started, and bounds
// the wait for a client that does not read: on such a stream the connection itself may be healthy.
type stream struct {
	http.ResponseWriter
	began    bool
	watchdog watchdog // of writes
}

func newStream(w http.ResponseWriter, stall time.Duration) *stream {
	return &stream{ResponseWriter: w, watchdog: watchdog{limit: stall, deadline: http.NewResponseController(w).SetWriteDeadline}}
}

func (s *stream) Unwrap() http.ResponseWriter { return s.ResponseWriter }

func (s *stream) WriteHeader(status int) {
	s.began = s.began || status >= 200
	s.ResponseWriter.WriteHeader(status)
}

func (s *stream) Write(p []byte) (int, error) {
	s.began = true
	s.watchdog.start()
	defer s.watchdog.pause()
	return s.ResponseWriter.Write(p)
}

// Flush sends buffered bytes.
func (s *stream) Flush() { _ = s.FlushError() }

// FlushError sends buffered bytes.
func (s *stream) FlushError() error {
	s.began = true
	s.watchdog.start()
	defer s.watchdog.pause()
	return s.ResponseWriter.(interface{ FlushError() error }).FlushError()
}

// stop is called when the handler has returned: the response must not be used any more. net/http
// still writes buffered bytes, and the end of the answer; that is bounded.
func (s *stream) stop() {
	s.watchdog.stop()
	_ = s.watchdog.deadline(time.Now().Add(s.watchdog.limit))
}
