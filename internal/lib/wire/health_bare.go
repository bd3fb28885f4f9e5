//go:build !linux && !darwin && !windows

package wire

func setSocketOptions(uintptr) {}
