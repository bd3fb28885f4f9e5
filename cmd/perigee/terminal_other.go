//go:build !linux && !darwin && !freebsd && !windows

package main

import "os"

// isConsole tells a terminal from the only other device that streams are commonly given.
func isConsole(file *os.File) bool {
	info, err := file.Stat()
	null, failed := os.Stat(os.DevNull)
	return err == nil && (failed != nil || !os.SameFile(info, null))
}

// terminalColumns does not know how to ask here.
func terminalColumns(*os.File) (columns int, ok bool) { return 0, true }
