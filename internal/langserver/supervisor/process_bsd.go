//go:build unix && !linux

package supervisor

import (
	"net"
	"os/exec"
	"syscall"
	"time"
)

// runGroup runs a process to its end and then kills what is left of its group.
func runGroup(cmd *exec.Cmd, temp *tempDir, started chan<- error) {
	umaskByShell(cmd)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	temp.become(cmd)
	err := cmd.Start()
	started <- err
	if err != nil {
		return
	}
	_ = cmd.Wait()
	temp.killRest(cmd.Process.Pid)
	for deadline := time.Now().Add(groupPatience); time.Now().Before(deadline); time.Sleep(groupPoll) {
		if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err != nil {
			return // the group has no members, or only some that have ended
		}
	}
}

// connUser is not known here.
func connUser(net.Conn) (int, bool) { return 0, false }

// groupMemory is not known without /proc.
func groupMemory(int) int64 { return 0 }

// killMarked does nothing: the environment of processes is not known without /proc.
func killMarked(string) {}
