package supervisor

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"perigee/internal/testing/perigeetest/await"
)

// groupAlive reports whether a process group has members.
func groupAlive(group int) bool {
	return slices.ContainsFunc(processes(), func(p proc) bool { return p.group == group })
}

func TestLeavesNoChildren(t *testing.T) {
	t.Parallel()
	r := newRig(t, "children", nil)
	r.ready(t)
	temp := tempOf(t, r.notes)
	if got := marked(temp); got != 3 {
		t.Errorf("%d processes before the crash", got)
	}
	_ = syscall.Kill(r.Status().PID, syscall.SIGKILL)
	await.Until(t, "a restart", func() bool { return r.Status().Restarts == 1 })
	if got := marked(temp); got != 0 {
		t.Errorf("%d processes after the crash", got)
	}
}

// tempOf returns the temporary directory of the first process.
func tempOf(t *testing.T, notes string) string {
	t.Helper()
	for _, variable := range runs(t, notes)[0].Env {
		if value, ok := strings.CutPrefix(variable, "TMPDIR="); ok {
			return value
		}
	}
	t.Fatal("there is no TMPDIR")
	return ""
}

// marked counts the processes that have a temporary directory.
func marked(temp string) int {
	count := 0
	for _, p := range processes() {
		if p.hasEnv("TMPDIR=" + temp) {
			count++
		}
	}
	return count
}

func TestNextStartRemovesWhatAKilledSupervisorLeft(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pid := killedSupervisor(t, "children", dir)
	await.Until(t, "the end of the language server", func() bool { return marked(tempOf(t, filepath.Join(dir, "notes"))) == 2 })
	temp := tempOf(t, filepath.Join(dir, "notes"))

	// A supervisor beside the new one keeps its process.
	beside := newRig(t, "ok", func(o *Options) { o.Home = filepath.Join(dir, "home") })
	beside.ready(t)
	if marked(temp) != 0 || groupAlive(pid) {
		t.Error("processes are left")
	}
	if _, err := os.Stat(temp); !os.IsNotExist(err) {
		t.Errorf("the temporary directory is left: %v", err)
	}
	r := newRig(t, "ok", func(o *Options) { o.Home = filepath.Join(dir, "home") })
	r.ready(t)
	if status := beside.Status(); status.State != Ready || status.Restarts != 0 {
		t.Errorf("got %+v", status)
	}
	_ = r.Stop(t.Context())
	_ = beside.Stop(t.Context())
	if left, _ := os.ReadDir(filepath.Dir(temp)); len(left) != 0 {
		t.Errorf("left %v", left)
	}
}
