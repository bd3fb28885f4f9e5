//go:build unix

package connectcmd

import (
	"os"
	"syscall"
)

// passedOn are the signals that a client gets.
var passedOn = []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2}

// fromTerminal reports whether the terminal sends a signal to the client as well.
func fromTerminal(s os.Signal) bool { return s == os.Interrupt || s == syscall.SIGQUIT }

// exitStatus returns the exit code of a process as a shell reports it.
func exitStatus(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}
