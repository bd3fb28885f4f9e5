// Package peeruser finds the user of the process at the other end of a connection on this machine,
// so that servers on loopback addresses, which every user of a machine can reach, serve only the
// users that they are for. It works on Linux; on other systems every connection is accepted.
package peeruser

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
)

// A Process is the process at the other end of a Unix socket.
type Process struct {
	PID int // 0 if this process cannot see it
	UID int // -1 if the system does not report it
}

// A Check has the users that are accepted.
type Check struct {
	users []int
	known bool // the system reports the user of a connection
}

// NewCheck returns a check that accepts the user of this process, root, and further users. It uses
// a connection of its own to find out whether the system reports users; if not, the check accepts
// every user.
func NewCheck(ctx context.Context, further ...int) *Check {
	return Only(ctx, append([]int{os.Geteuid()}, further...)...)
}

// Only returns a check that accepts root and certain users, and not the user of this process unless
// it is one of them.
func Only(ctx context.Context, users ...int) *Check {
	return &Check{users: append([]int{0}, users...), known: peersKnown(ctx)}
}

// Own reports whether a connection is from a process of an accepted user. A socket that was closed
// has no user.
func (c *Check) Own(conn net.Conn) bool { return c.OwnTo(conn, netip.AddrPort{}) }

// OwnTo is Own for a connection that the system has redirected: the socket of the client is still
// connected to the destination. A destination that is not valid means that the connection was not
// redirected.
func (c *Check) OwnTo(conn net.Conn, destination netip.AddrPort) bool {
	own, _ := c.owner(conn, destination)
	return own
}

// owner reports whether a connection is from an accepted user, and whether its user is known.
func (c *Check) owner(conn net.Conn, destination netip.AddrPort) (own, known bool) {
	if !c.known {
		return true, false
	}
	far, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err == nil && !destination.IsValid() {
		destination, err = netip.ParseAddrPort(conn.LocalAddr().String())
	}
	if err != nil {
		return false, false
	}
	user, found := userOf(unmap(far), unmap(destination))
	return found && slices.Contains(c.users, user), found
}

// With returns a check that accepts further users as well.
func (c *Check) With(further ...int) *Check {
	return &Check{users: append(slices.Clone(c.users), further...), known: c.known}
}

// OwnServer is Own for the client of a connection: it reports whether the server is a process of an
// accepted user. It also works before the server has accepted the connection, so that nothing has
// to be sent before the check.
func (c *Check) OwnServer(conn net.Conn) bool {
	if !c.known {
		return true
	}
	server, err1 := netip.ParseAddrPort(conn.RemoteAddr().String())
	client, err2 := netip.ParseAddrPort(conn.LocalAddr().String())
	if err1 != nil || err2 != nil {
		return false
	}
	user, found := userOf(unmap(server), unmap(client))
	if !found { // it is not accepted yet
		user, found = listenerOf(unmap(server))
	}
	return found && slices.Contains(c.users, user)
}

// unmap returns an address in the family that a connection to it has, without a zone.
func unmap(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}

// Listener returns a listener that closes connections of other users, and calls refused the first
// time. The check runs when a connection is used first, in the goroutine that uses it, so that no
// connection waits for the check of another.
func (c *Check) Listener(l net.Listener, refused func()) net.Listener {
	return &listener{Listener: l, check: c, refused: sync.OnceFunc(refused)}
}

type listener struct {
	net.Listener
	check   *Check
	refused func()
}

func (l *listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		_ = conn.Close()
		return nil, errors.New("the user of a connection is known only for TCP")
	}
	return &checkedConn{TCPConn: tcp, of: l}, nil
}

// errRefused is the error of connections of other users.
var errRefused = errors.New("the connection is of another user")

// A checkedConn closes itself at its first Read or Write if it is of another user. Servers use it
// so before anything else.
type checkedConn struct {
	*net.TCPConn
	of   *listener
	once sync.Once
	err  error
}

func (c *checkedConn) check() error {
	c.once.Do(func() {
		own, known := c.of.check.owner(c.TCPConn, netip.AddrPort{})
		if own {
			return
		}
		c.err = errRefused
		_ = c.TCPConn.Close()
		if known { // and not closed by its client since
			c.of.refused()
		}
	})
	return c.err
}

func (c *checkedConn) Read(p []byte) (int, error) {
	if err := c.check(); err != nil {
		return 0, err
	}
	return c.TCPConn.Read(p)
}

func (c *checkedConn) Write(p []byte) (int, error) {
	if err := c.check(); err != nil {
		return 0, err
	}
	return c.TCPConn.Write(p)
}

// peersKnown reports whether the system reports the user of a connection.
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
	return (&Check{users: []int{os.Geteuid()}, known: true}).Own(server)
}
