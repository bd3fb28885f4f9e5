//go:build unix

package supervisor

import (
	"os"
	"os/exec"
	"syscall"
	"time"
)

const (
	groupPatience = 5 * time.Second // for the end of a group that was killed
	groupPoll     = 5 * time.Millisecond
)

// umaskByShell has a shell set the umask, since that of perigee is shared by all of its threads.
func umaskByShell(cmd *exec.Cmd) {
	if cmd.Err == nil {
		cmd.Args = append([]string{"sh", "-c", `umask 077; exec "$@"`, "sh", cmd.Path}, cmd.Args[1:]...)
		cmd.Path = "/bin/sh"
	}
}

func terminateGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGTERM) }

func killGroup(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) }

// ownSession starts a command without a terminal, in a group of its own.
func ownSession(cmd *exec.Cmd) { cmd.SysProcAttr.Setsid, cmd.SysProcAttr.Setpgid = true, false }
