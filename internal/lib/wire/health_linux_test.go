package wire

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// The kernel keeps few bytes of a body that it cannot send, so that pings do not wait behind them.
func TestUnsentBytesAreBounded(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	made, err := newConnector().dial(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer made.Close()
	var most int
	if err := made.(*conn).acks.raw.Control(func(fd uintptr) {
		most, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT)
	}); err != nil {
		t.Fatal(err)
	}
	if most != maxUnsent || err != nil {
		t.Errorf("%d bytes, %v", most, err)
	}
}
