//go:build !linux

package mitm

import (
	"net"
	"net/netip"
)

// originalDestination returns false: the destination is known on Linux only. Elsewhere only the
// server name is used.
func originalDestination(*net.TCPConn) (netip.AddrPort, bool) { return netip.AddrPort{}, false }
