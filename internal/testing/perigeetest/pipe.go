package perigeetest

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
)

// Pipes is a network inside the process: a net.Listener that accepts net.Pipes. Inside a
// synctest bubble servers and clients on it live in the bubble's time.
type Pipes struct {
	incoming chan net.Conn
	closed   chan struct{}
	once     sync.Once

	mu     sync.Mutex
	dialed []*pipe
}

// NewPipes returns a listener without connections.
func NewPipes() *Pipes { return &Pipes{incoming: make(chan net.Conn), closed: make(chan struct{})} }

// Accept waits for the next Dial.
func (p *Pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.incoming:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Dial connects to the next Accept. It has the signature of http.Transport.DialContext; the address
// does not matter.
func (p *Pipes) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.incoming <- theirs:
		c := &pipe{Conn: ours}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.dialed = append(p.dialed, c)
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// HTTP2 serves unencrypted HTTP/2 until the end of the test, and has a transport use it.
func (p *Pipes) HTTP2(t testing.TB, handler http.Handler) func(*http.Transport) {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Handler: handler, Protocols: &protocols}
	go func() { _ = server.Serve(p) }()
	t.Cleanup(func() { _ = server.Close() })
	return func(t *http.Transport) { t.DialContext, t.Protocols = p.Dial, &protocols }
}

// Dialed returns how many connections there have been.
func (p *Pipes) Dialed() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.dialed)
}

// Stall makes no byte pass any more on the connections that were dialed. Both ends stay open.
func (p *Pipes) Stall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.dialed {
		c.stalled.Store(true)
	}
}

// A pipe is the end of a connection that dialed.
type pipe struct {
	net.Conn
	stalled atomic.Bool
}

func (c *pipe) Read(p []byte) (int, error) {
	for {
		if n, err := c.Conn.Read(p); err != nil || !c.stalled.Load() {
			return n, err
		}
	}
}

func (c *pipe) Write(p []byte) (int, error) {
	if c.stalled.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// Close ends Accept. Open connections stay open.
func (p *Pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

// Addr names no place.
func (p *Pipes) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }
