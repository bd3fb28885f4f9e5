package simulator

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// pipeHost serves the simulator over in-memory pipes, for clients in the same process.
type pipeHost struct {
	server *Server

	mu         sync.Mutex
	listener   *pipeListener // nil until the first Transport
	http       *http.Server
	done       chan struct{}
	transports []*http.Transport
	closed     bool
}

// Transport returns a client transport that connects to this server by pipes, for every host, http
// or https: HTTP/1.1 in full, without a port. It works until Close.
func (s *Server) Transport() *http.Transport { return s.pipes.transport() }

func (h *pipeHost) transport() *http.Transport {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.listener == nil {
		h.listener = &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
		h.http = &http.Server{Handler: h.server, ReadHeaderTimeout: time.Minute,
			ErrorLog: slog.NewLogLogger(h.server.logger.Handler(), slog.LevelDebug)}
		h.done = make(chan struct{})
		if h.closed {
			h.listener.Close()
		}
		go func() {
			defer close(h.done)
			_ = h.http.Serve(h.listener) // always ends with an error; Close is the only cause
		}()
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return h.listener.dial(ctx) }
	// DialTLSContext without TLS: the client believes in its handshake, and production addresses
	// work unchanged.
	transport := &http.Transport{DialContext: dial, DialTLSContext: dial, MaxIdleConnsPerHost: 100, DisableCompression: true}
	h.transports = append(h.transports, transport)
	return transport
}

func (h *pipeHost) close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	if h.listener == nil {
		return nil
	}
	for _, transport := range h.transports {
		transport.CloseIdleConnections()
	}
	h.transports = nil
	err := h.http.Close()
	<-h.done
	return err
}

// pipeListener is a net.Listener with connections that are made by dial.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

var errSimulatorClosed = errors.New("simulator: closed")

func (l *pipeListener) dial(ctx context.Context) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-l.closed:
		return nil, errSimulatorClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "simulator" }
