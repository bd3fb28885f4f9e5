//go:build unix

package extserver

import (
	"os"
	"os/exec"
)

// inherited are the variables that commands get from perigee.
var inherited = []string{"PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "USER", "LOGNAME"}

// shell returns the program that runs commands.
func shell() string {
	if info, err := os.Stat("/bin/bash"); err == nil && info.Mode().IsRegular() {
		return "/bin/bash"
	}
	return "/bin/sh"
}

// shellCommand runs a command line.
func shellCommand(line string) *exec.Cmd { return exec.Command(shell(), "-c", line) }
