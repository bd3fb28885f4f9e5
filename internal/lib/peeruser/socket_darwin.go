package peeruser

import (
	"net"

	"golang.org/x/sys/unix"
)

// SocketPeer returns the process at the other end of a Unix socket. ok is false if the system does
// not report it.
func SocketPeer(conn *net.UnixConn) (peer Process, ok bool) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return peer, false
	}
	peer.UID = -1
	failed := raw.Control(func(fd uintptr) { peer.PID, err = unix.GetsockoptInt(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERPID) })
	return peer, failed == nil && err == nil
}
