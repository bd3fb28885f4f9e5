package extserver

import (
	"os/exec"
	"runtime"
	"syscall"
)

// dieWithThread has the kernel kill a command when the thread that starts it ends: with the goroutine that calls it, or with
// perigee. That goroutine has to wait for the command.
func dieWithThread(cmd *exec.Cmd) {
	runtime.LockOSThread()
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
}
