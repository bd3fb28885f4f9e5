package main

import (
	"os"
	"syscall"
	"unsafe"
)

// isConsole tells a console from other devices, for what is read and for what is written.
func isConsole(file *os.File) bool {
	var mode uint32
	return syscall.GetConsoleMode(syscall.Handle(file.Fd()), &mode) == nil
}

// terminalColumns asks a console how wide its window is.
func terminalColumns(file *os.File) (columns int, ok bool) {
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
