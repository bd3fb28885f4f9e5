package config

import (
	"os"
	"path/filepath"
	"strings"
)

// checkDataDir looks whether the data directory is there or can be made, without making it. What it finds is a warning: commands
// that only look at the configuration need no data.
func (l *loader) checkDataDir() {
	dir := l.config.DataDir
	if dir == "" && l.good("data_dir") {
		l.problem("data_dir", "data_dir: there is no home directory to keep things in", "set data_dir or PERIGEE_DATA_DIR")
	}
	if dir == "" || !l.good("data_dir") || l.src.ReadFile != nil {
		return
	}
	place := nearestThatExists(dir)
	info, err := os.Stat(place)
	switch {
	case err != nil:
		l.warnAt(l.origin("data_dir"), "data_dir: %s", err)
	case !info.IsDir():
		l.warnAt(l.origin("data_dir"), "data_dir: %s is not a directory; choose another one with data_dir or PERIGEE_DATA_DIR", place)
	case !canWrite(place) || isKernels(place):
		l.warnAt(l.origin("data_dir"), "data_dir: %s cannot be written to; choose another directory with data_dir or PERIGEE_DATA_DIR", place)
	}
}

// nearestThatExists is path, or the first directory above it that exists.
func nearestThatExists(path string) string {
	path = filepath.Clean(path)
	for {
		if _, err := os.Lstat(path); err == nil || filepath.Dir(path) == path {
			return path
		}
		path = filepath.Dir(path)
	}
}

// isKernels says whether a directory is one of those in which the kernel keeps its own files. The superuser may write to
// them, and still no file can be made there.
func isKernels(dir string) bool {
	return filepath.Separator == '/' && (strings.HasPrefix(dir+"/", "/proc/") || strings.HasPrefix(dir+"/", "/sys/"))
}
