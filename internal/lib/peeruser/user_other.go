//go:build !linux

package peeruser

import "net/netip"

// userOf finds no user: connections are not checked on this system.
func userOf(netip.AddrPort, netip.AddrPort) (user int, found bool) { return 0, false }

// listenerOf finds no user either.
func listenerOf(netip.AddrPort) (user int, found bool) { return 0, false }
