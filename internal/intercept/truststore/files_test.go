package truststore

import (
	"crypto/x509"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"perigee/internal/intercept/authority"
	"perigee/internal/lib/netguard"
	"perigee/internal/testing/perigeetest/await"
)

// newAuthority makes the files of a CA, as perigee serve and perigee mitm do.
func newAuthority(t *testing.T, dir string) *x509.Certificate {
	t.Helper()
	hosts, err := netguard.ParseHosts([]string{"*.example.org"})
	if err != nil {
		t.Fatal(err)
	}
	a, made, err := authority.Open(dir, hosts, time.Now)
	if err != nil || !made {
		t.Fatalf("made %v, %v", made, err)
	}
	if _, err := a.WriteBundle(); err != nil {
		t.Fatal(err)
	}
	return a.Info().Certificate
}

func TestEveryFileOfTheCAIsRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ca")
	ca, mitm := newAuthority(t, dir), newAuthority(t, filepath.Join(dir, "mitm"))
	if !isOurs(ca) {
		t.Errorf("%s is not recognized", ca.Subject)
	}
	earlier := newCA(t, "perigee", "perigee earlier")
	for _, c := range []*x509.Certificate{earlier, ca, ca} {
		if err := Record(dir, c); err != nil {
			t.Fatal(err)
		}
	}
	own, err := OwnCertificates(dir)
	if err != nil || len(own) != 3 || !own[0].Equal(ca) || !own[1].Equal(mitm) || !own[2].Equal(earlier) {
		t.Errorf("got %d certificates, %v", len(own), err)
	}
	lock, err := Lock(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Close() }()
	// What is left of a process that was killed while it wrote.
	for _, name := range []string{".ca.key.123.tmp", "mitm/.bundle.pem.9.tmp"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	removed, kept, err := RemoveFiles(dir)
	if err != nil || len(kept) != 0 || !slices.Contains(removed, filepath.Join(dir, "ca.key")) {
		t.Errorf("removed %v, kept %v, %v", removed, kept, err)
	}
	if _, err := os.Lstat(dir); !os.IsNotExist(err) {
		t.Errorf("the directory is left: %v", err)
	}
	if removed, kept, err = RemoveFiles(dir); len(removed)+len(kept) != 0 || err != nil {
		t.Errorf("again: removed %v, kept %v, %v", removed, kept, err)
	}
}

func TestFilesThatAreNotOfTheCAStay(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ca")
	newAuthority(t, dir)
	own := []string{filepath.Join(dir, "company.pem"), filepath.Join(dir, ".x.tmp")}
	for _, path := range own {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, kept, err := RemoveFiles(dir)
	slices.Sort(kept)
	slices.Sort(own)
	if err != nil || !slices.Equal(kept, own) {
		t.Errorf("kept %v, %v", kept, err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 2 {
		t.Errorf("%v is left", left)
	}
}

func TestRecordForgets(t *testing.T) {
	dir := t.TempDir()
	a, b := newCA(t, "perigee", "perigee a"), newCA(t, "perigee", "perigee b")
	for _, err := range []error{Record(dir, a), Record(dir, b), Forget(dir, a), Forget(dir, a)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if left, err := Recorded(dir); err != nil || len(left) != 1 || !left[0].Equal(b) {
		t.Errorf("got %v, %v", left, err)
	}
}

func TestProcessesThatTrustTheCA(t *testing.T) {
	if _, err := os.Stat("/proc/self/environ"); err != nil {
		t.Skip("there is no /proc")
	}
	dir := t.TempDir()
	started := func(file string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), "sleep", "60")
		cmd.Env = []string{"SSL_CERT_FILE=" + file}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = await.Result(t, cmd.Wait, "the end of the process") })
		return cmd
	}
	uses := started(filepath.Join(dir, "bundle.pem"))
	started(dir + "-other/bundle.pem")
	if ids := Processes(dir); !slices.Equal(ids, []int{uses.Process.Pid}) {
		t.Errorf("got %v, want %d", ids, uses.Process.Pid)
	}
}
