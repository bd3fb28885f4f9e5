//go:build linux || darwin || freebsd

package terminal

import (
	"os"
	"syscall"
	"unsafe"
)

// isConsole reports whether a character device is a terminal.
func isConsole(file *os.File) bool {
	_, ok := consoleColumns(file)
	return ok
}

// consoleColumns returns the width of a terminal, 0 if the terminal does not report it. Other
// devices are not ok.
func consoleColumns(file *os.File) (columns int, ok bool) {
	var size struct{ rows, columns, x, y uint16 }
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, file.Fd(), syscall.TIOCGWINSZ, uintptr(unsafe.Pointer(&size)))
	return int(size.columns), errno == 0
}
