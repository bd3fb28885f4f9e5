// Package netguard classifies network addresses: which ones only this machine can reach, and which
// ones belong to the public internet. The server requires keys unless only this machine can reach
// it, and the fetcher refuses internal addresses. A HostList has patterns of host names.
package netguard

import (
	"net"
	"net/netip"
	"strings"
)

// IsLoopback reports whether host, without a port, names this machine and cannot be reached from
// another one. Names are not resolved: only localhost, with or without a final dot, is known to be
// local.
func IsLoopback(host string) bool {
	if strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

// ListensOnLoopback reports whether a listener on address, as host:port, can be reached from this
// machine only.
func ListensOnLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && IsLoopback(host)
}

// IsLocal reports whether a listener with an address can be reached from this machine only.
func IsLocal(address net.Addr) bool {
	return address.Network() == "unix" || ListensOnLoopback(address.String())
}
