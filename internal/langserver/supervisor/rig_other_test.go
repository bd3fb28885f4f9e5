//go:build unix && !linux

package supervisor

func groupAlive(int) bool { return false }
