//go:build unix

package authority

import (
	"crypto/tls"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"perigee/internal/lib/netguard"
	"perigee/internal/testing/perigeetest/await"
)

// openAsChild is what this program does when a test starts it: it opens an authority and prints its
// fingerprint.
func openAsChild(dir string) int {
	if os.Getenv("AUTHORITY_TEST_FULL") != "" { // every write fails, as on a full disk
		signal.Ignore(unix.SIGXFSZ)
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{}); err != nil {
			fmt.Println(err)
			return 3
		}
	}
	hosts, err := netguard.ParseHosts([]string{"example.org"})
	if err != nil {
		return 3
	}
	a, made, err := Open(dir, hosts, nil)
	if err != nil {
		fmt.Print(err)
		return 1
	}
	fmt.Print(a.Info().Fingerprint, " ", made)
	return 0
}

func child(t *testing.T, dir string, env ...string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), append(env, "AUTHORITY_TEST_DIR="+dir)...)
	return cmd
}

func TestProcessesAtTheSameTimeGetOneAuthority(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ca")
	got := make([]string, 8)
	var wg sync.WaitGroup
	for i := range got {
		wg.Go(func() {
			out, err := child(t, dir).CombinedOutput()
			if err != nil {
				out = fmt.Appendf(out, " %v", err)
			}
			got[i] = string(out)
		})
	}
	await.Return(t, wg.Wait, "the processes")
	info, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	made := 0
	for _, line := range got {
		if !strings.HasPrefix(line, info.Fingerprint) {
			t.Errorf("a process has %q, the directory %s", line, info.Fingerprint)
		}
		if strings.HasSuffix(line, "true") {
			made++
		}
	}
	if made != 1 {
		t.Errorf("made %d times: %q", made, got)
	}
	cert, err := tls.LoadX509KeyPair(certificatePath(dir), keyPath(dir))
	if err != nil || cert.Leaf == nil {
		t.Errorf("the key does not fit: %v", err)
	}
}

func TestAFullDiskLeavesNoHalfOfAnAuthority(t *testing.T) {
	dir := t.TempDir()
	out, err := child(t, dir, "AUTHORITY_TEST_FULL=1").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "certificate authority: ") {
		t.Fatalf("%v: %s", err, out)
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if file.Name() != "ca.lock" {
			t.Errorf("%s is left", file.Name())
		}
	}
	if _, made := open(t, dir, nil, "example.org"); !made {
		t.Error("not made when there was room again")
	}
	// An authority that is there is not lost when a new one cannot be written.
	before, _ := open(t, dir, nil, "example.net")
	if out, err := child(t, dir, "AUTHORITY_TEST_FULL=1").CombinedOutput(); err == nil {
		t.Fatalf("%s", out)
	}
	if after, made := open(t, dir, nil, "example.net"); made || after.Info().Fingerprint != before.Info().Fingerprint {
		t.Error("the authority is lost")
	}
}
