// Package wire is what every upstream needs that asks its provider over HTTP: connections that are kept, bodies whose
// bytes are not given up too early, a watchdog for providers that fall silent, and a relay that passes on what they
// answer, chunk by chunk. What a chunk says it does not know; upstream packages call it, and tell it.
package wire

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// NewTransport keeps connections for reuse, many to one host, and leaves bodies as they are: a compressed
// event stream arrives in lumps.
func NewTransport() *http.Transport {
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           dial,
		TLSHandshakeTimeout:   10 * time.Second,
		ExpectContinueTimeout: time.Second,
		MaxIdleConns:          256,
		MaxIdleConnsPerHost:   256,
		IdleConnTimeout:       90 * time.Second,
		ForceAttemptHTTP2:     true,
		// Requests are a short head and a body that goes past the buffer; answers are short events. Every open call has both.
		WriteBufferSize:    1 << 10,
		ReadBufferSize:     2 << 10,
		DisableCompression: true,
	}
}

// NewClient returns a client that does not follow redirects: they would carry the secret of the call to wherever they
// point. A nil transport is a new one.
func NewClient(transport http.RoundTripper) *http.Client {
	if transport == nil {
		transport = NewTransport()
	}
	return &http.Client{Transport: transport, CheckRedirect: func(next *http.Request, _ []*http.Request) error {
		if next.Body != nil {
			_ = next.Body.Close() // opened for a request that is never sent, and nobody else closes it
		}
		return http.ErrUseLastResponse
	}}
}

var dialer = net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}

func dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return conn{c}, nil
}

// A conn copies request bodies to the provider through buffers that are used again. net/http would make a new one of
// 32 KB for each call, which is more garbage than everything else together. Behind TLS it plays no part.
type conn struct{ net.Conn }

// ReadFrom is how net/http copies a body to a connection.
func (c conn) ReadFrom(r io.Reader) (n int64, err error) {
	if limited, ok := r.(*io.LimitedReader); ok {
		if body, ok := limited.R.(*bodyReader); ok && body.left <= limited.N {
			return body.WriteTo(c.Conn) // all of it is in memory: there is nothing to copy
		}
	}
	buf := copyBuffers.Get().(*[]byte)
	defer copyBuffers.Put(buf)
	for {
		read, readErr := r.Read(*buf)
		if read > 0 {
			written, err := c.Write((*buf)[:read])
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

var copyBuffers = sync.Pool{New: func() any { b := make([]byte, 64<<10); return &b }}
