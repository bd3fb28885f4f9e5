package perigee_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestUnits has systemd check the units in dist, where its tools are installed. The program need
// not be: another stands in.
func TestUnits(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "perigee")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	installed := regexp.MustCompile(`(?m)^ExecStart=(/usr/local|%h/\.local)/bin/perigee `)
	unit := func(name string) string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join("dist", name))
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, ".service") && !installed.Match(text) {
			t.Errorf("%s does not start perigee", name)
		}
		text = regexp.MustCompile(`(?m)^ExecStart=\S+`).ReplaceAll(text, []byte("ExecStart="+program))
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	run := func(args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), analyze, args...).CombinedOutput()
		if err != nil {
			t.Errorf("systemd-analyze %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	service, socket, user := unit("perigee.service"), unit("perigee.socket"), unit("user/perigee.service")
	for _, args := range [][]string{{service, socket}, {user}} {
		if out := run(append([]string{"verify", "--man=no"}, args...)...); strings.Contains(out, dir) {
			t.Errorf("systemd-analyze verify says\n%s", out)
		}
	}
	out := run("security", "--offline=true", "--no-pager", service)
	level := regexp.MustCompile(`Overall exposure level for \S+: ([0-9.]+)`).FindStringSubmatch(out)
	if level == nil {
		t.Fatalf("systemd-analyze security says\n%s", out)
	}
	const most = 1.5 // of 10; a service without hardening has 9.6
	if exposure, err := strconv.ParseFloat(level[1], 64); err != nil || exposure > most {
		t.Errorf("the exposure level is %s, at most %v was wanted\n%s", level[1], most, out)
	}
}
