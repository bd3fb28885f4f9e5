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
	var found *unix.Ucred
	if raw.Control(func(fd uintptr) { found, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }) != nil || err != nil {
		return peer, false
	}
	return Process{PID: int(found.Pid), UID: int(found.Uid)}, true
}
