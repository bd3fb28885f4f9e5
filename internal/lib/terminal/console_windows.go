package terminal

import (
	"os"
	"syscall"
	"unsafe"
)

// isConsole reports whether a character device is a console, for input as well as for output.
func isConsole(file *os.File) bool {
	var mode uint32
	return syscall.GetConsoleMode(syscall.Handle(file.Fd()), &mode) == nil
}

// consoleColumns returns the width of the console's window.
func consoleColumns(file *os.File) (columns int, ok bool) {
	var info struct {
		sizeX, sizeY, cursorX, cursorY int16
		attributes                     uint16
		left, top, right, bottom       int16
		maxX, maxY                     int16
	}
	ask := syscall.NewLazyDLL("kernel32.dll").NewProc("GetConsoleScreenBufferInfo")
	done, _, _ := ask.Call(file.Fd(), uintptr(unsafe.Pointer(&info)))
	return int(info.right) - int(info.left) + 1, done != 0
}
