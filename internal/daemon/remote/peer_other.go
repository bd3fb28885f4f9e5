//go:build !linux && !darwin

package remote

import "net"

// peerPID returns 0: the process at the other end of a socket is unknown.
func peerPID(net.Conn) int { return 0 }

// hasOpen reports whether a process is known to have a file open.
func hasOpen(int, string) bool { return false }

// unitOf returns no service: there is no systemd.
func unitOf(int) Unit { return Unit{} }
