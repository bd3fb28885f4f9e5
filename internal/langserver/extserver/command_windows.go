package extserver

import (
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// inherited are the variables that commands get from perigee.
var inherited = []string{"PATH", "PATHEXT", "SystemRoot", "SystemDrive", "ComSpec", "TEMP", "TMP", "USERNAME"}

// shell is what runs commands.
func shell() string {
	if path := os.Getenv("ComSpec"); path != "" {
		return path
	}
	return `C:\Windows\System32\cmd.exe`
}

// shellCommand runs a command line in a process group of its own.
func shellCommand(line string) *exec.Cmd {
	cmd := exec.Command(shell())
	cmd.SysProcAttr = &syscall.SysProcAttr{
		CmdLine:       `"` + shell() + `" /d /s /c "` + line + `"`,
		CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP,
	}
	return cmd
}

// killGroup kills the shell and what it has started. Processes that outlive their shell are not found.
func killGroup(cmd *exec.Cmd) {
	_ = exec.Command("taskkill", "/t", "/f", "/pid", strconv.Itoa(cmd.Process.Pid)).Run()
	_ = cmd.Process.Kill()
}
