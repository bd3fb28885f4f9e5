//go:build unix

package procgroup

import (
	"os"
	"os/exec"
	"syscall"
)

func setGroup(cmd *exec.Cmd) { attributes(cmd).Setpgid = true }

// Detach starts a command in a session of its own: the command has no terminal, gets no signals of
// one, and can outlive this process. Its group is its own as well.
func Detach(cmd *exec.Cmd) {
	a := attributes(cmd)
	a.Setsid, a.Setpgid = true, false
}

func attributes(cmd *exec.Cmd) *syscall.SysProcAttr {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	return cmd.SysProcAttr
}

// Terminate asks the group that a process leads to end. Where that is not possible (Windows), it
// does nothing.
func Terminate(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGTERM) }

// Kill kills the group that a process leads, also after the process has ended. It returns an error
// if there is no process left to kill, or if p is nil because it was not started.
func Kill(p *os.Process) error {
	if p == nil {
		return os.ErrProcessDone
	}
	return syscall.Kill(-p.Pid, syscall.SIGKILL)
}

// Inherit has a command keep a file open for as long as the command runs, and with it a lock on the
// file. A nil file is ignored. On Windows, where locks are not inherited, Inherit does nothing.
func Inherit(cmd *exec.Cmd, f *os.File) {
	if f != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, f)
	}
}
