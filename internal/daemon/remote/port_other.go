//go:build !linux

package remote

// ListenerOf is known on Linux only.
func ListenerOf(string) Listener { return Listener{} }

// dataDirOf is known on Linux only.
func dataDirOf(int) string { return "" }
