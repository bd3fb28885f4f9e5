//go:build !linux

package doctor

// networkFilesystem is known on Linux only.
func networkFilesystem(string) string { return "" }
