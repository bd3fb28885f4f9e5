package perigeetest

import (
	"errors"
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// dropPackets gives the socket a filter that lets no packet in, so that nothing is acknowledged.
func dropPackets(t *testing.T, c net.Conn) bool {
	t.Helper()
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	nothing := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: 0}}
	program := unix.SockFprog{Len: uint16(len(nothing)), Filter: &nothing[0]}
	var failed error
	if err := raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &program)
	}); err != nil {
		return true // closed already
	}
	if errors.Is(failed, unix.EPERM) {
		return false // in some sandboxes only root may
	}
	if failed != nil {
		t.Fatal("attach a filter to the socket:", failed)
	}
	return true
}
