//go:build unix

package bridge

import (
	"errors"
	"syscall"
)

// alive reports whether there is a process. A process of another user cannot be signalled, but
// counts.
func alive(pid int) bool { return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

func refused(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }
