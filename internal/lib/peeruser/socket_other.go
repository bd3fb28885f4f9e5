//go:build !linux && !darwin

package peeruser

import "net"

// SocketPeer returns false: the process at the other end of a socket is unknown here.
func SocketPeer(*net.UnixConn) (peer Process, ok bool) { return peer, false }
