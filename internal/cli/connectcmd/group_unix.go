//go:build unix

package connectcmd

import (
	"os"
	"os/exec"
	"syscall"
)

// ownGroup puts a command that is not started yet into a process group of its own, which ends with its context or when end is
// called: clients start servers, which must not outlive them.
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

// detach has a command outlive this process and its terminal.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// inherit has a command keep a file open for as long as it runs.
func inherit(cmd *exec.Cmd, f *os.File) { cmd.ExtraFiles = append(cmd.ExtraFiles, f) }

// passedOn are the signals that a client gets.
var passedOn = []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2}

// fromTerminal reports whether the terminal sends a signal to the client as well.
func fromTerminal(s os.Signal) bool { return s == os.Interrupt || s == syscall.SIGQUIT }

// exitStatus is the exit code of a process as a shell reports it.
func exitStatus(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}
