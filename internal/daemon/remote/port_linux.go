package remote

import (
	"bufio"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"perigee/internal/store/datadir"
)

// ListenerOf finds the process that listens on a TCP port. That of another user is found only by
// root.
func ListenerOf(port string) Listener {
	inodes := make(map[string]bool)
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		for _, inode := range listeners(table, port) {
			inodes["socket:["+inode+"]"] = true
		}
	}
	if len(inodes) == 0 {
		return Listener{}
	}
	descriptors, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, path := range descriptors {
		if target, err := os.Readlink(path); err == nil && inodes[target] {
			dir := filepath.Dir(filepath.Dir(path))
			pid, _ := strconv.Atoi(filepath.Base(dir))
			name, _ := os.ReadFile(filepath.Join(dir, "comm"))
			return Listener{pid, strings.TrimSpace(string(name))}
		}
	}
	return Listener{}
}

// listeners returns the inodes of the sockets in a table of the kernel that listen on a port.
func listeners(table, port string) (inodes []string) {
	number, err := strconv.Atoi(port)
	if err != nil {
		return nil
	}
	file, err := os.Open(table)
	if err != nil {
		return nil
	}
	defer func() { _ = file.Close() }()
	const listen = "0A" // TCP_LISTEN
	for lines := bufio.NewScanner(file); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 10 || fields[3] != listen {
			continue
		}
		_, local, _ := strings.Cut(fields[1], ":")
		if n, err := strconv.ParseUint(local, 16, 16); err == nil && int(n) == number {
			inodes = append(inodes, fields[9])
		}
	}
	return inodes
}

// dataDirOf returns the data directory with a lock that a process has open, "" if there is none.
func dataDirOf(pid int) string {
	open, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/fd/*")
	for _, name := range open {
		path, _ := os.Readlink(name)
		if dir := filepath.Dir(path); path != "" && path == datadir.LockPath(dir) {
			return dir
		}
	}
	return ""
}
