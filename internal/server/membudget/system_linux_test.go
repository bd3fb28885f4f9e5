package membudget

import (
	"testing"
	"testing/fstest"
)

func TestSystemMemory(t *testing.T) {
	for _, test := range []struct {
		name  string
		files map[string]string
		want  int64
	}{
		{"machine alone", map[string]string{"proc/meminfo": "MemTotal:        2048 kB\nMemFree: 1 kB\n"}, 2 << 20},
		{"no files", nil, 0},
		{"no limit", map[string]string{"proc/meminfo": "MemTotal: 2048 kB\n", "sys/fs/cgroup/memory.max": "max\n"}, 2 << 20},
		{"container", map[string]string{"proc/meminfo": "MemTotal: 2048 kB\n", "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "1048576\n"}, 1 << 20},
		{"a group above has less", map[string]string{"proc/meminfo": "MemTotal: 2048 kB\n", "proc/self/cgroup": "0::/system.slice/perigee.service\n",
			"sys/fs/cgroup/system.slice/memory.max": "524288\n", "sys/fs/cgroup/system.slice/perigee.service/memory.max": "1048576\n"}, 512 << 10},
		{"version 1", map[string]string{"proc/meminfo": "MemTotal: 2048 kB\n", "proc/self/cgroup": "5:cpu,memory:/docker/x\n4:pids:/docker/x\n",
			"sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes": "1048576\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, 1 << 20},
		{"version 1, paths of the host", map[string]string{"proc/meminfo": "MemTotal: 2048 kB\n", "proc/self/cgroup": "5:memory:/docker/x\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "1048576\n"}, 1 << 20},
		{"more than the machine", map[string]string{"proc/meminfo": "MemTotal: 2048 kB\n", "sys/fs/cgroup/memory.max": "99999999999\n"}, 2 << 20},
		{"damaged", map[string]string{"proc/meminfo": "MemTotal: ? kB\n", "proc/self/cgroup": "nonsense\n\n"}, 0},
	} {
		root := fstest.MapFS{}
		for name, text := range test.files {
			root[name] = &fstest.MapFile{Data: []byte(text)}
		}
		if got := memoryOf(root); got != test.want {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
	}
	if systemMemory() <= 0 {
		t.Error("the memory of this machine is unknown")
	}
}

func TestAuto(t *testing.T) {
	for _, test := range []struct{ system, want int64 }{{0, 1 << 30}, {64 << 20, 256 << 20}, {4 << 30, 2 << 30}} {
		if got := auto(test.system); got != test.want {
			t.Errorf("auto(%d) is %d, want %d", test.system, got, test.want)
		}
	}
}
