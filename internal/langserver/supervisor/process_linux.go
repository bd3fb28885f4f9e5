package supervisor

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// setUmask sets the umask of the thread, which belongs to the goroutine alone, to 077. A command
// that the goroutine starts inherits it.
func setUmask(cmd *exec.Cmd) {
	if err := unix.Unshare(unix.CLONE_FS); err == nil {
		unix.Umask(0o077)
	} else {
		umaskByShell(cmd) // some containers do not allow it
	}
}

// awaitExit waits for the end of a process without reaping it: until it is reaped, its number
// cannot name another group. It returns false if the system does not support that.
func awaitExit(p *os.Process) bool {
	err := error(unix.EINTR)
	for err == unix.EINTR { //nolint:errorlint // system calls return exactly this value
		err = unix.Waitid(unix.P_PID, p.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
	}
	return err == nil
}

// killLeft kills the group that process p led, unless p is nil, and processes that have the mark
// in their environment, until there are none.
func killLeft(p *os.Process, mark string) {
	group := -1
	if p != nil {
		group = p.Pid
	}
	for deadline := time.Now().Add(groupPatience); time.Now().Before(deadline); time.Sleep(groupPoll) {
		alive := false
		for _, p := range processes() {
			if p.group == group || p.hasEnv("TMPDIR="+mark) {
				_ = syscall.Kill(p.pid, syscall.SIGKILL)
				alive = true
			}
		}
		if !alive {
			return
		}
	}
}

// groupMemory returns the resident bytes of the processes of a group.
func groupMemory(group int) int64 {
	var pages int64
	for _, p := range processes() {
		if p.group == group {
			pages += p.pages
		}
	}
	return pages * int64(os.Getpagesize())
}

// A proc is a line of /proc/N/stat.
type proc struct {
	pid, group int
	pages      int64
}

// processes returns all processes, except for zombies.
func processes() []proc {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var all []proc
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		text, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "stat"))
		if err != nil {
			continue
		}
		// The name is in parentheses and may have spaces and parentheses itself.
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		if len(fields) < 22 || fields[0] == "Z" || fields[0] == "X" {
			continue
		}
		group, _ := strconv.Atoi(fields[2])
		pages, _ := strconv.ParseInt(fields[21], 10, 64)
		all = append(all, proc{pid: pid, group: group, pages: pages})
	}
	return all
}

// hasEnv reports whether a process was started with a variable.
func (p proc) hasEnv(assignment string) bool {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.pid), "environ"))
	return err == nil && bytes.Contains(append([]byte{0}, text...), []byte("\x00"+assignment+"\x00"))
}
