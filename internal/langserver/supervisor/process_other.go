//go:build !linux

package supervisor

import (
	"os"
	"os/exec"
	"runtime"
	"time"

	"perigee/internal/lib/procgroup"
)

func setUmask(cmd *exec.Cmd) {
	if runtime.GOOS != "windows" {
		umaskByShell(cmd)
	}
}

// awaitExit returns false: on this system the end of a process is detected by reaping it.
func awaitExit(*os.Process) bool { return false }

// killLeft kills the group that a process led. Without /proc the environment of processes cannot
// be read.
func killLeft(p *os.Process, _ string) {
	for deadline := time.Now().Add(groupPatience); time.Now().Before(deadline); time.Sleep(groupPoll) {
		if procgroup.Kill(p) != nil {
			return // the group has no members, or only some that have ended
		}
	}
}

// groupMemory returns 0: without /proc it is unknown.
func groupMemory(int) int64 { return 0 }
