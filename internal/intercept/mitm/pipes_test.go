package mitm

import (
	"context"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// Pipes is a network inside the process, for tests in synctest bubbles. Its addresses are those of
// this machine. A connection keeps up to pipeSize bytes in each direction, as those of the system
// keep some.
type Pipes struct {
	mu        sync.Mutex
	listeners []*pipeListener // by port; that of port 1 is not used
}

const pipeSize = 64 << 10

// NewPipes returns a network without listeners.
func NewPipes() *Pipes { return &Pipes{listeners: make([]*pipeListener, 2)} }

// Through returns options with which servers are reached through this network.
func (n *Pipes) Through(o TransportOptions) TransportOptions {
	o.direct = n.Dial
	return o
}

// Listen returns a listener on a new port.
func (n *Pipes) Listen() net.Listener {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := &pipeListener{incoming: make(chan net.Conn, 1024), closed: make(chan struct{}), address: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: len(n.listeners)}}
	n.listeners = append(n.listeners, l)
	return l
}

// Dial connects to a listener, before it accepts the connection. Its shape is that of
// http.Transport.DialContext.
func (n *Pipes) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if host != "localhost" && net.ParseIP(host) == nil {
		return nil, &net.OpError{Op: "dial", Net: network, Err: &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}}
	}
	port, err := net.LookupPort(network, service)
	if err != nil {
		return nil, err
	}
	refused := &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
	n.mu.Lock()
	var l *pipeListener
	if port < len(n.listeners) {
		l = n.listeners[port]
	}
	n.mu.Unlock()
	if l == nil {
		return nil, refused
	}
	ours, theirs := newPipe(&net.TCPAddr{IP: l.address.IP, Port: 60_000}, l.address)
	select {
	case <-l.closed:
		return nil, refused
	default:
	}
	select {
	case l.incoming <- theirs:
		return ours, nil
	case <-l.closed:
		return nil, refused
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type pipeListener struct {
	incoming chan net.Conn
	closed   chan struct{}
	once     sync.Once
	address  *net.TCPAddr
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.incoming:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close also closes the connections that were not accepted.
func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	for {
		select {
		case c := <-l.incoming:
			_ = c.Close()
		default:
			return nil
		}
	}
}

func (l *pipeListener) Addr() net.Addr { return l.address }

// newPipe returns the two ends of a connection.
func newPipe(one, other net.Addr) (*pipeConn, *pipeConn) {
	there, back := newPipeBytes(), newPipeBytes()
	return &pipeConn{in: back, out: there, local: one, remote: other}, &pipeConn{in: there, out: back, local: other, remote: one}
}

type pipeConn struct {
	in, out       *pipeBytes
	local, remote net.Addr
}

func (c *pipeConn) Read(p []byte) (int, error)  { return c.in.read(p) }
func (c *pipeConn) Write(p []byte) (int, error) { return c.out.write(p) }
func (c *pipeConn) LocalAddr() net.Addr         { return c.local }
func (c *pipeConn) RemoteAddr() net.Addr        { return c.remote }

func (c *pipeConn) Close() error {
	c.out.change(func(b *pipeBytes) { b.ended = true })
	c.in.change(func(b *pipeBytes) { b.left = true })
	return nil
}

func (c *pipeConn) CloseWrite() error {
	c.out.change(func(b *pipeBytes) { b.ended = true })
	return nil
}

func (c *pipeConn) SetDeadline(t time.Time) error {
	_ = c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}

func (c *pipeConn) SetReadDeadline(t time.Time) error {
	c.in.change(func(b *pipeBytes) { b.readUntil.set(t, b) })
	return nil
}

func (c *pipeConn) SetWriteDeadline(t time.Time) error {
	c.out.change(func(b *pipeBytes) { b.writeUntil.set(t, b) })
	return nil
}

// pipeBytes is one direction of a connection.
type pipeBytes struct {
	mu                    sync.Mutex
	changed               *sync.Cond
	data                  []byte
	ended                 bool // nothing more is written
	left                  bool // nothing more is read
	readUntil, writeUntil pipeDeadline
}

func newPipeBytes() *pipeBytes {
	b := &pipeBytes{}
	b.changed = sync.NewCond(&b.mu)
	return b
}

func (b *pipeBytes) change(f func(*pipeBytes)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f(b)
	b.changed.Broadcast()
}

// read waits for bytes, the end or the deadline, in the time of the bubble.
func (b *pipeBytes) read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for ; ; b.changed.Wait() {
		switch {
		case b.left:
			return 0, net.ErrClosed
		case b.readUntil.passed():
			return 0, os.ErrDeadlineExceeded
		case len(b.data) > 0:
			n := copy(p, b.data)
			b.data = append(b.data[:0], b.data[n:]...)
			b.changed.Broadcast()
			return n, nil
		case b.ended:
			return 0, io.EOF
		}
	}
}

// write waits for room, the end or the deadline, in the time of the bubble.
func (b *pipeBytes) write(p []byte) (n int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for ; ; b.changed.Wait() {
		switch {
		case b.ended:
			return n, net.ErrClosed
		case b.left:
			return n, syscall.EPIPE
		case b.writeUntil.passed():
			return n, os.ErrDeadlineExceeded
		}
		part := min(len(p)-n, pipeSize-len(b.data))
		b.data = append(b.data, p[n:n+part]...)
		b.changed.Broadcast()
		if n += part; n == len(p) {
			return n, nil
		}
	}
}

// A pipeDeadline is when reads or writes fail; zero means never.
type pipeDeadline struct {
	at    time.Time
	timer *time.Timer
}

// set has reads or writes that wait look again at the deadline, in the time of the bubble.
func (d *pipeDeadline) set(t time.Time, b *pipeBytes) {
	if d.timer != nil {
		d.timer.Stop()
	}
	if d.at = t; !t.IsZero() {
		d.timer = time.AfterFunc(time.Until(t), func() { b.change(func(*pipeBytes) {}) })
	}
}

func (d *pipeDeadline) passed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }
