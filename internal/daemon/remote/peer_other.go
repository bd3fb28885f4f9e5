//go:build !linux

package remote

// hasOpen reports whether a process is known to have a file open.
func hasOpen(int, string) bool { return false }

// unitOf returns no service: there is no systemd.
func unitOf(int) Unit { return Unit{} }
