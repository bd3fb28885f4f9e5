//go:build !unix

package bridge

import (
	"errors"
	"os"
	"syscall"
)

// alive reports whether there is a process. Processes that have ended cannot be opened.
func alive(pid int) bool {
	process, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	_ = process.Release()
	return true
}

// wsaRefused is WSAECONNREFUSED.
const wsaRefused = syscall.Errno(10061)

func refused(err error) bool { return errors.Is(err, wsaRefused) }
