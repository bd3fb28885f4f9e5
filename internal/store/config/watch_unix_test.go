//go:build unix

package config

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A configuration can come through a pipe (--config <(…)); reading that a second time would wait
// forever.
func TestWatchLeavesPipesAlone(t *testing.T) {
	dir, src := inDir(t, nil)
	src.Path = filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(src.Path, 0o600); err != nil {
		t.Skip("no pipes here:", err)
	}
	fail := func(error) { t.Error("a pipe was read again") }
	w := NewWatcher(src, &Loaded{Path: src.Path, inputs: []input{{path: src.Path}}}, nil, fail)
	w.poll()
}

func TestWithoutAHomeDirectoryDataDirMustBeSet(t *testing.T) {
	t.Setenv("HOME", "")
	t.Setenv("XDG_CONFIG_HOME", "")
	src := Sources{Env: func(string) (string, bool) { return "", false }}
	if _, err := Load(src); err == nil || !strings.Contains(err.Error(), "set data_dir or PERIGEE_DATA_DIR") {
		t.Errorf("got %v", err)
	}
	src.Flags = map[string]string{"data_dir": "~/data"}
	if _, err := Load(src); err == nil || !strings.Contains(err.Error(), "the home directory is not known") {
		t.Errorf("got %v", err)
	}
	src.Flags = map[string]string{"data_dir": "/data"}
	if _, err := Load(src); err != nil {
		t.Error(err)
	}
}
