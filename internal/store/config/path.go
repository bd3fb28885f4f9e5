package config

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"perigee/internal/store/datadir"
)

// EnvFile is the variable with the path of the file.
const EnvFile = "PERIGEE_CONFIG"

// Files lists the paths of the configuration file in the order of search: one if a flag or a
// variable names it, none if the system has no place for it.
func Files(src Sources) []string {
	paths, _ := newLoader(src).src.files()
	return paths
}

// files is Files for sources with defaults. named is the flag or variable that names the file;
// empty if none does, so that the file may be missing.
func (s Sources) files() (paths []string, named string) {
	if s.Path != "" {
		return []string{s.Path}, "--config"
	}
	if path := s.lookup(EnvFile); path != "" {
		return []string{path}, EnvFile
	}
	dirs := datadir.ConfigDirs(s.system, s.lookup, s.home())
	if s.ConfigDir != "" {
		dirs = []string{s.ConfigDir}
	}
	for _, dir := range dirs {
		paths = append(paths, filepath.Join(dir, "perigee", "config.yaml"))
	}
	return paths, ""
}

// lookup reads an environment variable. An empty one counts as not set: many tools pass on
// variables that way.
func (s Sources) lookup(name string) string {
	if value, ok := s.Env(name); ok {
		return value
	}
	return ""
}

// home returns the home directory, or "" if the system has none.
func (s Sources) home() string {
	if s.HomeDir != "" {
		return s.HomeDir
	}
	home, _ := os.UserHomeDir()
	return home
}

// expand replaces a leading ~ by the home directory, and returns false if that is unknown.
func (s Sources) expand(path string) (string, bool) {
	rest, ok := strings.CutPrefix(path, "~")
	if !ok || rest != "" && rest[0] != '/' && (runtime.GOOS != "windows" || rest[0] != '\\') {
		return path, true
	}
	home := s.home()
	return filepath.Join(home, rest), home != ""
}

// besideFile resolves a relative path in the file against the directory of the file. Paths in flags
// and in the environment are relative to the working directory, as usual.
func (l *loader) besideFile(path string, origin Origin) string {
	if path == "" || filepath.IsAbs(path) || origin.Line == 0 {
		return path
	}
	return filepath.Join(filepath.Dir(l.Path), path)
}
