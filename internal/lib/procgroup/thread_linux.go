package procgroup

import (
	"os/exec"
	"runtime"
	"syscall"
)

// DieWithThread has the kernel kill a command when the thread that starts it ends: with the
// goroutine that calls DieWithThread, or with this process. That goroutine has to start the
// command and to wait for it. Where the kernel cannot do that, DieWithThread does nothing.
func DieWithThread(cmd *exec.Cmd) {
	runtime.LockOSThread()
	attributes(cmd).Pdeathsig = syscall.SIGKILL
}
