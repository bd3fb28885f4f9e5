package perigeetest

import (
	"context"
	"net"
	"sync"
)

// Pipes is a network inside the process: a net.Listener whose connections are net.Pipes. Inside a synctest bubble
// servers and clients on it live in the bubble's time.
type Pipes struct {
	incoming chan net.Conn
	closed   chan struct{}
	once     sync.Once
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

// Dial connects to the next Accept. Its shape is that of http.Transport.DialContext; the address does not matter.
func (p *Pipes) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.incoming <- theirs:
		return ours, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
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
