//go:build !windows

package standin

import (
	"os"
	"syscall"
)

// signalZero fails if the process is gone.
func signalZero(p *os.Process) error { return p.Signal(syscall.Signal(0)) }
