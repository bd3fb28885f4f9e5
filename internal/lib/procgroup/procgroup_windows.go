package procgroup

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"syscall"

	"golang.org/x/sys/windows"
)

func setGroup(cmd *exec.Cmd) { addFlags(cmd, windows.CREATE_NEW_PROCESS_GROUP) }

// Detach starts a command without a console: the command gets no signals of one, and can outlive
// this process.
func Detach(cmd *exec.Cmd) {
	addFlags(cmd, windows.CREATE_NEW_PROCESS_GROUP|windows.DETACHED_PROCESS)
}

func addFlags(cmd *exec.Cmd, flags uint32) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.CreationFlags |= flags
}

// Terminate does nothing: a process without a console cannot be asked to end.
func Terminate(*os.Process) {}

// Kill kills a process and its child processes. Processes that outlive their parent are not found.
// It returns an error if the process has ended, or if p is nil because it was not started.
func Kill(p *os.Process) error {
	if p == nil {
		return os.ErrProcessDone
	}
	// Windows supports no signal but Kill. For a process that was waited for the error is another
	// one; its number may belong to another process by now.
	if err := p.Signal(syscall.Signal(0)); !errors.Is(err, syscall.EWINDOWS) {
		return err
	}
	_ = exec.Command("taskkill", "/t", "/f", "/pid", strconv.Itoa(p.Pid)).Run()
	return p.Kill()
}

// Inherit does nothing: locks are not inherited here.
func Inherit(*exec.Cmd, *os.File) {}
