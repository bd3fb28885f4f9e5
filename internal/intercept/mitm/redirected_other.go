//go:build !linux

package mitm

import (
	"net"
	"net/netip"
)

// originalDestination is known on Linux only. Elsewhere the server name decides alone.
func originalDestination(*net.TCPConn) (netip.AddrPort, bool) { return netip.AddrPort{}, false }
