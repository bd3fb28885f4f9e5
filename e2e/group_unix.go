//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// ownGroup puts a command that is not started yet into a process group of its own, which ends with its context
// or when the returned function is called.
func ownGroup(cmd *exec.Cmd) (end func()) {
	kill := func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = kill
	return func() {
		if cmd.Process != nil {
			_ = kill() // there may be no process left
		}
	}
}

// processRuns reports whether there is a process with this ID.
func processRuns(id int) bool { return syscall.Kill(id, 0) == nil }

// groupRuns reports whether the process group with this ID has a process.
func groupRuns(id int) bool { return syscall.Kill(-id, 0) == nil }
