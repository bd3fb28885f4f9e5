package perigeetest

import (
	"net"
	"sync"
	"testing"

	"perigee/internal/testing/perigeetest/await"
)

// A Relay passes bytes between clients and one server, over real connections that tests can make
// die. Connections made afterwards work.
type Relay struct {
	Address string // where clients connect

	t      *testing.T
	server string
	closed chan struct{}

	mu       sync.Mutex
	accepted int
	open     []*relayed
}

// A relayed is one connection through a Relay.
type relayed struct {
	client, server net.Conn
	stalled        chan struct{} // closed: no byte passes any more
	dead           bool          // stalled is closed
}

// NewRelay returns a relay to the server at an address. It ends with the test.
func NewRelay(t *testing.T, server string) *Relay {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &Relay{Address: listener.Addr().String(), t: t, server: server, closed: make(chan struct{})}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { r.pass(client, running.Go) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		close(r.closed)
		r.mu.Lock()
		for _, c := range r.open {
			c.close()
		}
		r.mu.Unlock()
		await.Return(t, running.Wait, "the connections of the relay")
	})
	return r
}

// Accepted is how many connections there have been.
func (r *Relay) Accepted() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.accepted
}

// Drop makes the kernel ignore every packet of the open connections, as after a change of network.
// It reports whether this system can.
func (r *Relay) Drop() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.open {
		if !dropPackets(r.t, c.client) {
			return false
		}
		if !c.dead {
			close(c.stalled)
		}
		c.dead = true
	}
	return true
}

// pass copies in both directions until one side ends.
func (r *Relay) pass(client net.Conn, start func(func())) {
	server, err := net.Dial("tcp", r.server)
	if err != nil {
		_ = client.Close()
		return
	}
	c := &relayed{client: client, server: server, stalled: make(chan struct{})}
	r.mu.Lock()
	r.accepted++
	r.open = append(r.open, c)
	select {
	case <-r.closed:
		c.close()
	default:
	}
	r.mu.Unlock()
	start(func() { c.copy(server, client) })
	c.copy(client, server)
}

// copy passes bytes in one direction until that side ends. A connection that is stalled stays as it
// is until the relay is closed.
func (c *relayed) copy(to, from net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		select {
		case <-c.stalled:
			return
		default:
		}
		if _, failed := to.Write(buf[:n]); failed != nil || err != nil {
			c.close()
			return
		}
	}
}

func (c *relayed) close() {
	_ = c.client.Close()
	_ = c.server.Close()
}
