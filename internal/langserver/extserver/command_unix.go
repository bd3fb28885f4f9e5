//go:build unix

package extserver

import (
	"os"
	"os/exec"
	"syscall"
)

// inherited are the variables that commands get from perigee.
var inherited = []string{"PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "USER", "LOGNAME"}

// shell is what runs commands.
func shell() string {
	if info, err := os.Stat("/bin/bash"); err == nil && info.Mode().IsRegular() {
		return "/bin/bash"
	}
	return "/bin/sh"
}

// shellCommand runs a command line in a process group of its own.
func shellCommand(line string) *exec.Cmd {
	cmd := exec.Command(shell(), "-c", line)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// killGroup kills what is left of the processes of a command.
func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
