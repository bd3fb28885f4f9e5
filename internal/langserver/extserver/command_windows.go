package extserver

import (
	"os"
	"os/exec"
	"syscall"
)

// inherited are the variables that commands get from perigee.
var inherited = []string{"PATH", "PATHEXT", "SystemRoot", "SystemDrive", "ComSpec", "TEMP", "TMP", "USERNAME"}

// shell returns the program that runs commands.
func shell() string {
	if path := os.Getenv("ComSpec"); path != "" {
		return path
	}
	return `C:\Windows\System32\cmd.exe`
}

// shellCommand runs a command line.
func shellCommand(line string) *exec.Cmd {
	cmd := exec.Command(shell())
	cmd.SysProcAttr = &syscall.SysProcAttr{CmdLine: `"` + shell() + `" /d /s /c "` + line + `"`}
	return cmd
}
