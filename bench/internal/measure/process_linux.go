package measure

import (
	"os/exec"
	"syscall"
)

// dieWithParent makes the kernel end the child when this process is gone, also when it was killed
// and could not clean up.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// FileLimit is how many files a process may open. Go programs raise their limit to the hard one by
// themselves.
func FileLimit() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 1024
	}
	return int(min(limit.Max, 1<<20))
}
