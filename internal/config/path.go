package config

import (
	"cmp"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// EnvFile is the variable that names the file.
const EnvFile = "PERIGEE_CONFIG"

// files lists where the configuration file may be, in the order of search, and what named it: a flag or a variable. A file
// that nothing named may be missing. The list is empty when the system has no place for one.
func (s Sources) files() (paths []string, named string) {
	if s.Path != "" {
		return []string{s.Path}, "--config"
	}
	if path := s.lookup(EnvFile); path != "" {
		return []string{path}, EnvFile
	}
	dirs := configDirs(s.system, s.lookup, s.home())
	if s.ConfigDir != "" {
		dirs = []string{s.ConfigDir}
	}
	for _, dir := range dirs {
		paths = append(paths, filepath.Join(dir, "perigee", "config.yaml"))
	}
	return paths, ""
}

// configDirs lists the directories in which programs keep their configuration on a system, the preferred one first. On macOS
// command-line tools use ~/.config more often than the directory that the system has for it; both are searched.
func configDirs(system string, lookup func(string) string, home string) []string {
	var dirs []string
	add := func(dir string) {
		if dir != "" {
			dirs = append(dirs, dir)
		}
	}
	if system == "windows" {
		add(cmp.Or(lookup("APPDATA"), under(home, "AppData", "Roaming")))
		return dirs
	}
	// The specification says that a relative path here is to be ignored.
	if xdg := lookup("XDG_CONFIG_HOME"); filepath.IsAbs(xdg) {
		add(xdg)
	} else {
		add(under(home, ".config"))
	}
	if system == "darwin" || system == "ios" {
		add(under(home, "Library", "Application Support"))
	}
	return dirs
}

// lookup reads an environment variable; an empty one counts as not set, because that is how many tools
// pass on what they do not have.
func (s Sources) lookup(name string) string {
	if value, ok := s.Env(name); ok {
		return value
	}
	return ""
}

// home is empty when the system does not know it.
func (s Sources) home() string {
	if s.HomeDir != "" {
		return s.HomeDir
	}
	home, _ := os.UserHomeDir()
	return home
}

// dataDir is where programs keep data on this system, or "" when there is no such place.
func (s Sources) dataDir() string {
	home := s.home()
	switch s.system {
	case "windows":
		if local := s.lookup("LOCALAPPDATA"); local != "" {
			return filepath.Join(local, "perigee")
		}
		return under(home, "AppData", "Local", "perigee")
	case "darwin", "ios":
		return under(home, "Library", "Application Support", "perigee")
	}
	// The specification says that a relative path here is to be ignored.
	if data := s.lookup("XDG_DATA_HOME"); filepath.IsAbs(data) {
		return filepath.Join(data, "perigee")
	}
	return under(home, ".local", "share", "perigee")
}

func under(home string, elements ...string) string {
	if home == "" {
		return ""
	}
	return filepath.Join(append([]string{home}, elements...)...)
}

// expand replaces a leading ~ by the home directory; without one it says so with false.
func (s Sources) expand(path string) (string, bool) {
	rest, ok := strings.CutPrefix(path, "~")
	if !ok || rest != "" && rest[0] != '/' && (runtime.GOOS != "windows" || rest[0] != '\\') {
		return path, true
	}
	home := s.home()
	if home == "" {
		return path, false
	}
	return filepath.Join(home, rest), true
}

// besideFile makes a relative path from the file count from the file. What flags and environment say
// counts from where perigee was started, as it does for every other program.
func (l *loader) besideFile(path string, origin Origin) string {
	if path == "" || filepath.IsAbs(path) || origin.Line == 0 {
		return path
	}
	return filepath.Join(filepath.Dir(l.path), path)
}
