package peeruser

import (
	"net"
	"net/netip"
	"os"
	"testing"
)

// TestUserOfASocket asks in both ways for sockets that are open, closed at one end, and gone.
func TestUserOfASocket(t *testing.T) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	client, err := net.Dial("tcp4", listener.Addr().String())
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
