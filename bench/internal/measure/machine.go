package measure

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// Machine says what the figures were measured on.
func Machine() string {
	memory := "unknown memory"
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		if total, err := sizeField(string(text), "MemTotal"); err == nil {
			memory = BytesText(total) + " of memory"
		}
	}
	load, _, _ := strings.Cut(firstLine("/proc/loadavg"), " ")
	return fmt.Sprintf("%s, %d cores, %s; Linux %s; %s %s/%s; %s, load average %s at the start",
		cpuModel(), runtime.NumCPU(), memory, firstLine("/proc/sys/kernel/osrelease"),
		runtime.Version(), runtime.GOOS, runtime.GOARCH, time.Now().UTC().Format(time.DateOnly), load)
}

func cpuModel() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown processor"
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH + " processor"
}

func firstLine(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return "unknown"
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return line
}

// BytesText writes a size the way a person says it.
func BytesText(n int64) string {
	switch {
	case n < 1<<20:
		return fmt.Sprintf("%d KB", n>>10)
	case n < 1<<30 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MB", n>>20)
	case n < 1<<30:
		return fmt.Sprintf("%.1f MB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.0f GB", float64(n)/(1<<30))
}
