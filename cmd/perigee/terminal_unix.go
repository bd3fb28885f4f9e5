//go:build linux || darwin || freebsd

package main

import (
	"os"
	"syscall"
	"unsafe"
)

// isConsole tells a terminal from other devices.
func isConsole(file *os.File) bool {
	_, ok := terminalColumns(file)
	return ok
}

// terminalColumns asks a terminal how wide it is. Where it does not know it says 0.
func terminalColumns(file *os.File) (columns int, ok bool) {
	var size struct{ rows, columns, x, y uint16 }
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, file.Fd(), syscall.TIOCGWINSZ, uintptr(unsafe.Pointer(&size)))
	return int(size.columns), errno == 0
}
