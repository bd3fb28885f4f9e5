package datadir

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Default returns the data directory on a system (see runtime.GOOS), "" if there is none. lookup
// reads the environment.
func Default(system string, lookup func(string) string, home string) string {
	switch system {
	case "windows":
		return under(cmp.Or(lookup("LOCALAPPDATA"), under(home, "AppData", "Local")), "perigee")
	case "darwin", "ios":
		return under(home, "Library", "Application Support", "perigee")
	}
	return under(cmp.Or(absolute(lookup("XDG_DATA_HOME")), under(home, ".local", "share")), "perigee")
}

// ConfigDirs lists the directories for configuration files on a system. On macOS both are searched,
// because command-line tools use ~/.config more often than the directory of the system.
func ConfigDirs(system string, lookup func(string) string, home string) (dirs []string) {
	first := cmp.Or(absolute(lookup("XDG_CONFIG_HOME")), under(home, ".config"))
	second := ""
	switch system {
	case "windows":
		first = cmp.Or(lookup("APPDATA"), under(home, "AppData", "Roaming"))
	case "darwin", "ios":
		second = under(home, "Library", "Application Support")
	}
	for _, dir := range []string{first, second} {
		if dir != "" {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// absolute returns path if it is absolute, and otherwise "". The XDG specification requires
// relative paths to be ignored.
func absolute(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return ""
}

// under joins path elements, or returns "" if the directory is unknown.
func under(dir string, elements ...string) string {
	if dir == "" {
		return ""
	}
	return filepath.Join(append([]string{dir}, elements...)...)
}

// CheckWritable returns an error if a directory neither exists nor can be created, or cannot be
// written to. It creates nothing.
func CheckWritable(dir string) error {
	dir = Existing(dir)
	// The superuser may write to directories of the kernel, but no file can be created there.
	ofKernel := filepath.Separator == '/' && (strings.HasPrefix(dir+"/", "/proc/") || strings.HasPrefix(dir+"/", "/sys/"))
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is not a directory; choose another one with data_dir or PERIGEE_DATA_DIR", dir)
	case !canWrite(dir) || ofKernel:
		return fmt.Errorf("%s cannot be written to; choose another directory with data_dir or PERIGEE_DATA_DIR", dir)
	}
	return nil
}

// Existing returns dir, or the nearest directory above it that exists. A symbolic link exists even
// if its target does not.
func Existing(dir string) string {
	dir = filepath.Clean(dir)
	for {
		if _, err := os.Lstat(dir); err == nil || filepath.Dir(dir) == dir {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}
