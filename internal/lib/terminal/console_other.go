//go:build !linux && !darwin && !freebsd && !windows

package terminal

import "os"

// isConsole reports whether a character device is not the null device.
func isConsole(file *os.File) bool {
	info, err := file.Stat()
	null, failed := os.Stat(os.DevNull)
	return err == nil && (failed != nil || !os.SameFile(info, null))
}

// consoleColumns reports an unknown width: there is no portable way to ask.
func consoleColumns(*os.File) (columns int, ok bool) { return 0, true }
