package membudget

import (
	"bufio"
	"bytes"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
)

// systemMemory returns the memory available to this process: the machine's, or the lower limit of a
// control group. It returns 0 if that is unknown.
func systemMemory() int64 { return memoryOf(os.DirFS("/")) }

// memoryOf is systemMemory for a file system.
func memoryOf(root fs.FS) int64 {
	total := machineMemory(root)
	for _, limit := range groupLimits(root) {
		if limit > 0 && (total == 0 || limit < total) {
			total = limit
		}
	}
	return total
}

func machineMemory(root fs.FS) int64 {
	text, err := fs.ReadFile(root, "proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			kb, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
			return kb << 10
		}
	}
	return 0
}

// groupLimits returns the limits of the control groups of this process, of version 1 and 2. A limit
// applies to all groups below it. In a container the paths in /proc/self/cgroup may be the host's,
// so the root of the mount is always included.
func groupLimits(root fs.FS) []int64 {
	const mount = "sys/fs/cgroup"
	limits := []int64{groupLimit(root, mount+"/memory.max"), groupLimit(root, mount+"/memory/memory.limit_in_bytes")}
	text, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return limits
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		parts := strings.SplitN(lines.Text(), ":", 3) // 0::/user.slice or 4:cpu,memory:/docker/…
		if len(parts) != 3 {
			continue
		}
		base, file := mount, "memory.max"
		if parts[0] != "0" {
			if !strings.Contains(","+parts[1]+",", ",memory,") {
				continue
			}
			base, file = mount+"/memory", "memory.limit_in_bytes"
		}
		for dir := path.Clean("/" + parts[2]); dir != "/"; dir = path.Dir(dir) {
			limits = append(limits, groupLimit(root, base+dir+"/"+file))
		}
	}
	return limits
}

// groupLimit reads a limit. It returns 0 if there is none.
func groupLimit(root fs.FS, name string) int64 {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return 0
	}
	limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil { // "max"
		return 0
	}
	return limit
}
