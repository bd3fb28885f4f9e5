// Package wire has the common parts of upstreams over HTTP: connections that are kept and checked,
// request bodies in pooled buffers, a watchdog for providers that fall silent, and a relay that
// passes answers on, chunk by chunk. Upstream packages decode the chunks.
package wire

import (
	"net/http"
	"sync/atomic"
	"time"
)

// A Transport sends requests to a provider or a sign-in server. It keeps connections for reuse,
// many to one host, and does not request compression: a compressed event stream arrives in lumps.
//
// Connections are checked while requests wait on them (see health.go). If a connection turns out to
// be dead before anything was received, its request is sent once more on a new one, unless the
// provider has worked on it (see resend.go).
type Transport struct {
	current      atomic.Pointer[http.Transport] // replaced when its connections are no longer trusted
	resendWithin time.Duration
}

// NewTransport returns a transport that goes through the proxy of the environment, if there is one.
func NewTransport() *Transport {
	t := &Transport{resendWithin: resendWithin}
	t.current.Store(&http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           newConnector().dial,
		TLSHandshakeTimeout:   connectTimeout,
		ExpectContinueTimeout: time.Second,
		MaxIdleConns:          256,
		MaxIdleConnsPerHost:   256,
		IdleConnTimeout:       90 * time.Second,
		ForceAttemptHTTP2:     true,
		HTTP2:                 &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
		// Requests are a short head and a body that goes past the buffer; answers are short events.
		// Every open call has both.
		WriteBufferSize:    1 << 10,
		ReadBufferSize:     2 << 10,
		DisableCompression: true,
	})
	return t
}

// Configure changes the settings of a transport. It must not be called after the first request.
func (t *Transport) Configure(change func(*http.Transport)) { change(t.current.Load()) }

// CloseIdleConnections closes the connections that no request uses.
func (t *Transport) CloseIdleConnections() { t.current.Load().CloseIdleConnections() }

// renew makes later requests use new connections, unless that has happened since old was current.
// Requests that wait on connections of old keep them; each of these connections is closed when its
// last request has ended.
func (t *Transport) renew(old *http.Transport) {
	if t.current.CompareAndSwap(old, old.Clone()) {
		old.CloseIdleConnections()
	}
}

// NewClient returns a client that does not follow redirects: they would send the secret of the call
// to any host. If transport is nil, the client has a new one.
func NewClient(transport http.RoundTripper) *http.Client {
	if transport == nil {
		transport = NewTransport()
	}
	return &http.Client{Transport: transport, CheckRedirect: func(next *http.Request, _ []*http.Request) error {
		if next.Body != nil {
			_ = next.Body.Close() // opened for a request that is never sent
		}
		return http.ErrUseLastResponse
	}}
}
