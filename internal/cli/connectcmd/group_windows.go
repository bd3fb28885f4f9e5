package connectcmd

import (
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/windows"
)

// ownGroup does nothing here: the process itself ends with its context.
func ownGroup(*exec.Cmd) (end func()) { return func() {} }

// detach has a command outlive this process and its console.
func detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP | windows.DETACHED_PROCESS}
}

// inherit does nothing here: locks are not inherited.
func inherit(*exec.Cmd, *os.File) {}

// passedOn are the signals that a client gets: the console sends them to all of its processes.
var passedOn = []os.Signal{os.Interrupt}

func fromTerminal(os.Signal) bool { return true }

func exitStatus(state *os.ProcessState) int { return state.ExitCode() }
