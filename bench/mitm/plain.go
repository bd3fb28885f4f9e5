//go:build linux

package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"sync"
	"time"
)

// A plain proxy is what interception costs with net/http alone, and no more than that: CONNECT, one
// certificate for the one host, and httputil.ReverseProxy.
type plain struct {
	leaf    *tls.Certificate
	tunnels chan net.Conn // whose other end has been told 200
	reverse *httputil.ReverseProxy
}

// playPlain serves until it is ended. The arguments are the files of the certificate for clients,
// its key, and the roots of the server.
func playPlain(args []string) error {
	leaf, err := tls.LoadX509KeyPair(args[0], args[1])
	if err != nil {
		return err
	}
	roots, err := readRoots(args[2])
	if err != nil {
		return err
	}
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true, DisableCompression: true,
		MaxIdleConnsPerHost: 256, // two, the default, would dial all the time
	}
	p := &plain{leaf: &leaf, tunnels: make(chan net.Conn)}
	p.reverse = &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0), BufferPool: &buffers{},
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.URL.RawQuery = "https", r.In.Host, r.In.URL.RawQuery
			// The body that ReverseProxy puts in its place does not end reads when it is closed,
			// which blocks HTTP/2.
			if r.In.ProtoMajor == 2 && r.In.Body != http.NoBody && r.Out.Body != nil {
				r.Out.Body = r.In.Body
			}
		},
	}
	quiet := log.New(io.Discard, "", 0)
	inner := &http.Server{Handler: http.HandlerFunc(p.forward), ErrorLog: quiet, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = inner.Serve(p) }()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "listening on http://%s\n", l.Addr())
	outer := &http.Server{Handler: http.HandlerFunc(p.connect), ErrorLog: quiet, ReadHeaderTimeout: 10 * time.Second}
	return outer.Serve(l)
}

func (p *plain) connect(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodConnect {
		http.Error(w, "only CONNECT", http.StatusMethodNotAllowed)
		return
	}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if _, err := io.WriteString(conn, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		conn.Close()
		return
	}
	p.tunnels <- tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{*p.leaf}, NextProtos: []string{"h2", "http/1.1"}})
}

func (p *plain) forward(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 1 {
		_ = http.NewResponseController(w).EnableFullDuplex()
	}
	p.reverse.ServeHTTP(w, r)
}

// Accept, Close and Addr make a listener of the tunnels.
func (p *plain) Accept() (net.Conn, error) { return <-p.tunnels, nil }
func (p *plain) Close() error              { return nil }
func (p *plain) Addr() net.Addr            { return &net.TCPAddr{} }

// buffers are those that bodies are copied with.
type buffers struct{ pool sync.Pool }

func (b *buffers) Get() []byte {
	if buffer, ok := b.pool.Get().(*[]byte); ok {
		return *buffer
	}
	return make([]byte, 32<<10)
}

func (b *buffers) Put(buffer []byte) { b.pool.Put(&buffer) }
