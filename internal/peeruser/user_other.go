//go:build !linux

package peeruser

import "net"

// ownPeer does not know: the check is left out here.
func ownPeer(net.Conn, []int) bool { return false }
