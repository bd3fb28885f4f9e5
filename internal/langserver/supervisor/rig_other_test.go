//go:build unix && !linux

package langserver

func groupAlive(int) bool { return false }
