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

	"perigee"
	"perigee/internal/testing/daemontest"
	"perigee/internal/testing/perigeetest/await"
)

// withMounts runs a test in a mount namespace of its own, in which it has as many passing subtests.
func withMounts(t *testing.T, subtests int, run func()) {
	if os.Getenv("PERIGEE_TEST_DISK") != "" {
		run()
		return
	}
	t.Parallel()
	command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout=5m", "-test.v")
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
	case err != nil || strings.Count(text, "--- PASS: "+t.Name()+"/") != subtests:
		t.Errorf("%v\n%s", err, text)
	}
}

// smallDisk returns a directory that is a disk of its own.
func smallDisk(t *testing.T, size int) (dir string) {
	t.Helper()
	dir = daemontest.EmptyDir(t)
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", size)); err != nil {
		t.Fatalf("no tmpfs here: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir
}

// On a full disk, an upgrade of the database fails with an error that says so, and changes nothing:
// the next start has everything. The copy of the database is not made if there is no room.
func TestUpgradeOnFullDisk(t *testing.T) {
	withMounts(t, 2, func() {
		for _, free := range []int{0, 1 << 20} {
			t.Run(fmt.Sprint(free>>10, " KiB free"), func(t *testing.T) { upgradeOnFullDisk(t, free) })
		}
	})
}

func upgradeOnFullDisk(t *testing.T, free int) {
	archives, err := filepath.Glob("testdata/upgrade/*.tar.gz")
	if err != nil || len(archives) == 0 {
		t.Fatalf("archives %q, %v", archives, err)
	}
	o := unpackOlder(t, archives[0], smallDisk(t, 4<<20))
	// Traces would make room.
	if err := os.RemoveAll(filepath.Join(o.dir, "traces")); err != nil {
		t.Fatal(err)
	}
	o.Traced = ""
	for _, call := range o.Calls {
		delete(call, "bodies")
	}
	room, filler := filepath.Join(o.dir, "room"), filepath.Join(o.dir, "of-another-program")
	if err := os.WriteFile(room, make([]byte, free), 0o600); err != nil {
		t.Fatal(err)
	}
	fill(t, filler)
	if err := os.Remove(room); err != nil {
		t.Fatal(err)
	}
	g, err := o.serve(t)
	switch {
	case free == 0 && err == nil:
		t.Fatal("the upgrade was possible without room")
	case free == 0:
		if e := perigee.AsError(err); !strings.Contains(e.Error(), "full") && !strings.Contains(e.Error(), "space") {
			t.Errorf("the error does not say that the disk is full: %v", err)
		}
	case err != nil:
		t.Fatal(err)
	default:
		await.Receive(t, daemontest.Stopping(t.Context(), g), "the end of the daemon")
	}
	if copies, _ := filepath.Glob(filepath.Join(o.dir, "perigee.db.before-*")); len(copies) != 0 {
		t.Errorf("there are copies, or pieces of them: %q", copies)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if g, err = o.serve(t); err != nil {
		t.Fatalf("with room: %v", err)
	}
	o.checkCalls(t, g)
	o.checkObjects(t, g)
	await.Receive(t, daemontest.Stopping(t.Context(), g), "the end of the daemon")
	o.checkAccounts(t)
}

// On a small disk that traces and another program have filled, the daemon starts, and records all
// calls: traces make room. The disk is a tmpfs in a mount namespace of the test's own.
func TestFullDisk(t *testing.T) {
	withMounts(t, 2, func() {
		for _, size := range []int{5 << 20, 40 << 20} {
			t.Run(fmt.Sprint(size>>20, " MiB"), func(t *testing.T) { callsOnFullDisk(t, size) })
		}
	})
}

func callsOnFullDisk(t *testing.T, size int) {
	dir := smallDisk(t, size)
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
