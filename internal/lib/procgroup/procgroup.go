// Package procgroup starts commands in process groups of their own, so that their child processes
// can be ended with them, and as another user of the system.
package procgroup

import "os/exec"

// Own puts a command that is not started yet into a process group of its own. If the command has a
// context, the end of the context kills the group instead of the command alone.
func Own(cmd *exec.Cmd) {
	setGroup(cmd)
	if cmd.Cancel != nil {
		cmd.Cancel = func() error { return Kill(cmd.Process) }
	}
}
