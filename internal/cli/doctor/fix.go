package doctor

import (
	"fmt"
	"path/filepath"
	"runtime"
)

// edit returns a command that opens a file at a line in the user's editor; line 0 is anywhere.
// Without a file it writes one.
func edit(path string, line int) string {
	if path == "" {
		return "perigee config init"
	}
	path = absolute(path)
	switch {
	case runtime.GOOS == "windows":
		return commandLine("notepad", path)
	case line > 0:
		return fmt.Sprintf(`"${EDITOR:-vi}" +%d %s`, line, commandLine(path))
	}
	return `"${EDITOR:-vi}" ` + commandLine(path)
}

// absolute makes a path usable in any directory.
func absolute(path string) string {
	if whole, err := filepath.Abs(path); err == nil {
		return whole
	}
	return path
}
