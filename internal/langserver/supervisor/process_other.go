//go:build !unix

package supervisor

import (
	"os"
	"os/exec"
)

// runGroup runs a process to its end. There are no process groups here.
func runGroup(cmd *exec.Cmd, temp *tempDir, started chan<- error) {
	temp.become(cmd)
	err := cmd.Start()
	started <- err
	if err == nil {
		_ = cmd.Wait()
	}
}

// terminateGroup does nothing: a process without a console cannot be asked to end.
func terminateGroup(int) {}

func killGroup(p *os.Process) { _ = p.Kill() }

// groupMemory is not known without /proc.
func groupMemory(int) int64 { return 0 }

// killMarked does nothing: the environment of processes is not known without /proc.
func killMarked(string) {}

// ownSession does nothing: there are no sessions here.
func ownSession(*exec.Cmd) {}
