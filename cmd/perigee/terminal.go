package main

import (
	"io"
	"os"
)

// usualWidth is that of a terminal that does not say.
const usualWidth = 80

// width is how many characters a line of the answer may have; 0 means that no person reads it.
func (e *environment) width() int { return streamWidth(e.stdout) }

// streamWidth is how many characters a line of a stream may have; 0 means that it is no terminal.
func streamWidth(stream io.Writer) int {
	file, ok := stream.(*os.File)
	if !ok || !isTerminal(file) {
		return 0
	}
	columns, ok := terminalColumns(file)
	switch {
	case !ok:
		return 0 // some other device
	case columns == 0:
		return usualWidth
	}
	return columns
}

// isTerminal says whether a stream is one that a person sits at.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && isConsole(f) // /dev/null is a device, too
}
