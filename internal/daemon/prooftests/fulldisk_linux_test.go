package prooftests

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"perigee/internal/testing/daemontest"
)

// On a small disk that traces and another program have filled, the daemon starts, and records all
// calls: traces make room. The disk is a tmpfs in a mount namespace of the test's own.
func TestFullDisk(t *testing.T) {
	if os.Getenv("PERIGEE_TEST_DISK") != "" {
		for _, size := range []int{5 << 20, 40 << 20} {
			t.Run(fmt.Sprint(size>>20, " MiB"), func(t *testing.T) { callsOnFullDisk(t, size) })
		}
		return
	}
	t.Parallel()
	command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFullDisk$", "-test.timeout=5m", "-test.v")
	command.Env = append(os.Environ(), "PERIGEE_TEST_DISK=1")
	command.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if uid := os.Getuid(); uid != 0 {
		command.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		command.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
	}
	out, err := command.CombinedOutput()
	switch text := string(out); {
	case len(text) == 0 && err != nil, strings.Contains(text, "no tmpfs here"):
		t.Skipf("no file system can be mounted here: %v %s", err, text)
	case err != nil || strings.Count(text, "--- PASS: TestFullDisk/") != 2:
		t.Errorf("%v\n%s", err, text)
	}
}

func callsOnFullDisk(t *testing.T, size int) {
	dir := daemontest.EmptyDir(t)
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", size)); err != nil {
		t.Fatalf("no tmpfs here: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	old := make([]byte, 100<<10)
	for i := 0; i < size*3/4; i += len(old) {
		trace := filepath.Join(dir, "traces", "2026-11-01", fmt.Sprintf("142004.088-old%d", i))
		if err := os.MkdirAll(trace, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(trace, "client_request.json"), old, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	fill(t, filepath.Join(dir, "of-another-program"))

	body := fmt.Sprintf(`{"model":"gemini-3-flash","messages":[{"role":"user","content":%q}]}`, strings.Repeat("a long question ", 12_500))
	const calls = 60
	for range 2 {
		g := daemontest.StartIn(t, daemontest.Sources("", dir), nil)
		for range calls {
			if status, answer := g.Request(t, http.MethodPost, "/v1/chat/completions", "", body); status != http.StatusOK {
				t.Fatalf("%d %s", status, answer)
			}
		}
		g.Daemon.Stop(t.Context())
	}
	if recorded, err := daemontest.Recorded(t.Context(), dir); err != nil || len(recorded) != 2*calls {
		t.Errorf("%d of %d calls are recorded, %v", len(recorded), 2*calls, err)
	}
}

// fill writes a file until the disk is full.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for piece := make([]byte, 4<<10); err == nil; {
		_, err = f.Write(piece)
	}
}
