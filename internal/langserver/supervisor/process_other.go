//go:build !linux

package supervisor

import (
	"net"
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

// awaitExit is false: a process that has ended is known here by reaping it.
func awaitExit(*os.Process) bool { return false }

// killLeft kills the group that a process led. The environment of processes is not known without
// /proc.
func killLeft(p *os.Process, _ string) {
	for deadline := time.Now().Add(groupPatience); time.Now().Before(deadline); time.Sleep(groupPoll) {
		if procgroup.Kill(p) != nil {
			return // the group has no members, or only some that have ended
		}
	}
}

// groupMemory is not known without /proc.
func groupMemory(int) int64 { return 0 }

// connUser is not known here.
func connUser(net.Conn) (int, bool) { return 0, false }
