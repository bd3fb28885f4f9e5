//go:build unix

package truststore

import (
	"os"
	"os/exec"
	"syscall"
)

// detach starts a program in a session of its own: it has no terminal, and gets none of its signals. A lock is held until the
// program has ended as well.
func detach(cmd *exec.Cmd, lock *os.File) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if lock != nil {
		cmd.ExtraFiles = []*os.File{lock}
	}
}
