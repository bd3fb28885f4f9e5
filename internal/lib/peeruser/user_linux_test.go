package peeruser

import (
	"net"
	"net/netip"
	"os"
	"testing"
)

// TestUserOfASocket asks in both ways for sockets that are open, closed at one end, and gone.
func TestUserOfASocket(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		t.Run(address, func(t *testing.T) { testUserOfASocket(t, address) })
	}
}

func testUserOfASocket(t *testing.T, address string) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Skip("no such addresses here: ", err)
	}
	defer func() { _ = listener.Close() }()
	client, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	server, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	far, near := netip.MustParseAddrPort(client.LocalAddr().String()), netip.MustParseAddrPort(server.LocalAddr().String())
	check := func(what string, open bool) {
		t.Helper()
		if user, found := search(far, near); found != open || open && user != os.Geteuid() {
			t.Errorf("%s: the tables have user %d, %v", what, user, found)
		}
		if user, found, err := diagnose(far, near); err != nil {
			t.Logf("%s: the kernel does not answer: %v", what, err)
		} else if found != open || open && user != os.Geteuid() {
			t.Errorf("%s: the kernel says user %d, %v", what, user, found)
		}
	}
	check("open", true)
	_ = client.Close()
	check("closed at the other end", false)
	_ = server.Close()
	check("closed", false)
}

// TestListenerChecksWhenAConnectionIsUsed accepts a connection that belongs to none any more, and
// another one, before either is read.
func TestListenerChecksWhenAConnectionIsUsed(t *testing.T) {
	check := NewCheck(t.Context())
	if !check.known {
		t.Skip("the system does not tell whose a connection is")
	}
	plain, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = plain.Close() }()
	refused := 0
	listener := check.Listener(plain, func() { refused++ })
	var servers, clients [3]net.Conn
	for i := range servers {
		if clients[i], err = net.Dial("tcp4", plain.Addr().String()); err != nil {
			t.Fatal(err)
		}
		if _, err := clients[i].Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if i != 1 {
			_ = clients[i].Close()
		}
		if servers[i], err = listener.Accept(); err != nil {
			t.Fatal(err)
		}
	}
	if refused != 0 {
		t.Error("a connection was checked before it was used")
	}
	for i, want := range []error{errRefused, nil, errRefused} {
		if n, err := servers[i].Read(make([]byte, 1)); err != want || n == 1 != (want == nil) {
			t.Errorf("connection %d: read %d, %v", i, n, err)
		}
		if _, err := servers[i].Write([]byte("x")); err != want {
			t.Errorf("connection %d: written: %v", i, err)
		}
		_ = servers[i].Close()
	}
	_ = clients[1].Close()
	if refused != 0 {
		t.Error("a connection that its client has closed was taken for one of another user")
	}
	listener = (&Check{users: []int{61234}, known: true}).Listener(plain, func() { refused++ })
	for range 2 {
		client, err := net.Dial("tcp4", plain.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		server, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := server.Write([]byte("x")); err != errRefused {
			t.Errorf("another user: %v", err)
		}
		_ = client.Close()
	}
	if refused != 1 {
		t.Errorf("refused was called %d times", refused)
	}
}

// TestServerOfAConnection asks for servers that have accepted a connection and for those that have
// not, at one address and at all.
func TestServerOfAConnection(t *testing.T) {
	check, other := NewCheck(t.Context()), &Check{users: []int{61234}, known: true}
	if !check.known {
		t.Skip("the system does not tell whose a connection is")
	}
	for listen, dial := range map[string]string{"127.0.0.1:0": "127.0.0.1", "0.0.0.0:0": "127.0.0.1", "[::]:0": "127.0.0.1", "[::1]:0": "::1"} {
		listener, err := net.Listen("tcp", listen)
		if err != nil {
			t.Logf("no such addresses here: %v", err)
			continue
		}
		_, port, _ := net.SplitHostPort(listener.Addr().String())
		client, err := net.Dial("tcp", net.JoinHostPort(dial, port))
		if err != nil {
			t.Fatal(err)
		}
		far := unmap(netip.MustParseAddrPort(client.RemoteAddr().String()))
		for _, accepted := range []bool{false, true} {
			if accepted {
				server, err := listener.Accept()
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = server.Close() }()
				_ = listener.Close()
			}
			if !check.OwnServer(client) || other.OwnServer(client) || !other.With(os.Geteuid()).OwnServer(client) {
				t.Errorf("%s, accepted %v: it is of the wrong user", listen, accepted)
			}
			if user, found := searchListener(far); found == accepted || found && user != os.Geteuid() {
				t.Errorf("%s, listening %v: the tables have user %d, %v", listen, !accepted, user, found)
			}
		}
		_ = client.Close()
	}
}
