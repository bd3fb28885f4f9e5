package remote

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// hasOpen reports whether a process has a file open.
func hasOpen(pid int, file string) bool {
	wanted, err := os.Stat(file)
	if err != nil {
		return false
	}
	open, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, name := range open {
		if info, err := os.Stat(name); err == nil && os.SameFile(info, wanted) {
			return true
		}
	}
	return false
}

// unitOf returns the service that systemd has started a process for, if the process is its main
// process.
func unitOf(pid int) Unit {
	number := strconv.Itoa(pid)
	environ, err := os.ReadFile("/proc/" + number + "/environ")
	if err != nil || !bytes.Contains(append([]byte{0}, environ...), []byte("\x00SYSTEMD_EXEC_PID="+number+"\x00")) {
		return Unit{}
	}
	groups, _ := os.ReadFile("/proc/" + number + "/cgroup")
	unit := Unit{Name: "perigee.service", OfUser: bytes.Contains(groups, []byte("/user@"))}
	for line := range strings.Lines(string(groups)) {
		if name := path.Base(strings.TrimSpace(line)); strings.HasSuffix(name, ".service") {
			unit.Name = name
		}
	}
	return unit
}
