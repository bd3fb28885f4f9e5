// Package peeruser finds out whose process is at the other end of a loopback connection, so that servers on loopback addresses, which
// every user of a machine can reach, serve only the users that they are for. Linux tells; elsewhere every connection is let in.
package peeruser

import (
	"context"
	"net"
	"sync"
)

// A Check knows the users that are let in: that of this process, root, and further ones.
type Check struct {
	further []int
	known   bool // the system tells whose a connection is
}

// NewCheck returns a check. It tries out whether the system tells whose a connection is, with one of perigee itself; if not, the check
// lets every user in.
func NewCheck(ctx context.Context, further ...int) *Check {
	return &Check{further: further, known: peersKnown(ctx)}
}

// Own reports whether a connection is from a process of a user that is let in. A socket that was closed belongs to none.
func (c *Check) Own(conn net.Conn) bool { return !c.known || ownPeer(conn, c.further) }

// Listener returns a listener that closes connections of other users, and calls refused the first time.
func (c *Check) Listener(l net.Listener, refused func()) net.Listener {
	return &listener{Listener: l, check: c, refused: sync.OnceFunc(refused)}
}

type listener struct {
	net.Listener
	check   *Check
	refused func()
}

func (l *listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil || l.check.Own(conn) {
			return conn, err
		}
		_ = conn.Close()
		l.refused()
	}
}

// peersKnown tries out whether the system tells whose a connection is.
func peersKnown(ctx context.Context) bool {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return false
	}
	defer func() { _ = listener.Close() }()
	client, err := new(net.Dialer).DialContext(ctx, "tcp4", listener.Addr().String())
	if err != nil {
		return false
	}
	defer func() { _ = client.Close() }()
	server, err := listener.Accept()
	if err != nil {
		return false
	}
	defer func() { _ = server.Close() }()
	return ownPeer(server, nil)
}
