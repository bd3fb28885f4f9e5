//go:build unix

package trustinstall

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"perigee/internal/intercept/truststore"
	"perigee/internal/lib/netguard"
	"perigee/internal/testing/perigeetest/await"
)

// TestMain also is the process that is killed in the middle of an installation.
func TestMain(m *testing.M) {
	if dir := os.Getenv("INSTALL_INTO"); dir != "" {
		ca := newCA(dir, func(string, ...any) {})
		plan, err := ca.Plan(context.Background(), truststore.System)
		if err == nil {
			_, err = plan.Run(context.Background())
		}
		fmt.Println("ended:", err)
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func newCA(dir string, say func(string, ...any)) *CA {
	hosts, err := netguard.ParseHosts([]string{"*.example.org"})
	if err != nil {
		panic(err)
	}
	return &CA{Dir: filepath.Join(dir, "data", "ca"), Hosts: hosts, Remark: say,
		Machine: truststore.Machine{OS: "linux", Root: filepath.Join(dir, "root"), Home: filepath.Join(dir, "home")}}
}

// newRig makes a root directory with a store, and a tool for it that runs a script before the
// bundle is replaced.
func newRig(t *testing.T, script string) (ca *CA, dir string, said *[]string) {
	dir, said = t.TempDir(), &[]string{}
	ca = newCA(dir, func(format string, args ...any) { *said = append(*said, fmt.Sprintf(format, args...)) })
	for _, sub := range []string{"root/etc/pki/ca-trust/source/anchors", "root/etc/pki/ca-trust/extracted/pem", "bin"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	tool := "#!/bin/sh\ncd '" + dir + "' || exit 1\ncat root/etc/pki/ca-trust/source/anchors/*.crt > new.$$ 2>/dev/null\n" + script +
		"\nmv new.$$ root/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem\n"
	if err := os.WriteFile(filepath.Join(dir, "bin/update-ca-trust"), []byte(tool), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Join(dir, "bin")+":"+os.Getenv("PATH"))
	return ca, dir, said
}

func isEmpty(t *testing.T, dir string) {
	t.Helper()
	if text, err := os.ReadFile(filepath.Join(dir, "root/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem")); err != nil || len(text) > 0 {
		t.Errorf("the bundle has %d bytes, %v", len(text), err)
	}
	if left, _ := os.ReadDir(filepath.Join(dir, "root/etc/pki/ca-trust/source/anchors")); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
	if _, err := os.Lstat(filepath.Join(dir, "data/ca")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the files of the CA are left: %v", err)
	}
}

// The tool goes on when perigee is killed, and would write the certificate into the bundle after a
// removal that does not wait.
func TestRemovalWaitsForTheToolOfAKilledProcess(t *testing.T) {
	ca, dir, _ := newRig(t, `if mkdir first 2>/dev/null; then echo > started; read line < gate; fi`)
	for _, name := range []string{"started", "gate"} {
		if err := syscall.Mkfifo(filepath.Join(dir, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), "INSTALL_INTO="+dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.ReadFile(filepath.Join(dir, "started")); err != nil { // waits for the tool
		t.Fatal(err)
	}
	_ = cmd.Process.Kill()
	_ = await.Result(t, cmd.Wait, "the end of the process")
	short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if done, err := ca.Remove(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it did not wait: %v, %v", done, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "gate"), []byte("go\n"), 0); err != nil {
		t.Fatal(err)
	}
	if done, err := ca.Remove(t.Context()); err != nil || len(done) == 0 {
		t.Errorf("removed %v, %v", done, err)
	}
	isEmpty(t, dir)
}

// The certificate of a CA that was replaced without perigee ca, as perigee serve does, is removed
// as well.
func TestRemovalFindsReplacedCAs(t *testing.T) {
	ca, dir, _ := newRig(t, "")
	for range 2 {
		plan, err := ca.Plan(t.Context(), truststore.System)
		if err != nil || plan.Done {
			t.Fatalf("done %v, %v", plan, err)
		}
		if _, err := plan.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"ca.pem", "ca.key"} {
			if err := os.Remove(filepath.Join(ca.Dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := ca.Status(t.Context()); !errors.Is(err, ErrNone) {
		t.Errorf("got %v", err)
	}
	if _, err := ca.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	isEmpty(t, dir)
}

// A CA that root made in the directory of a user could not be read by the user's daemon.
func TestRootMakesNoCAForAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	const nobody = 65534
	ca, dir, said := newRig(t, "")
	data := filepath.Join(dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(data, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	if _, err := ca.Plan(t.Context(), truststore.System); err == nil || !strings.Contains(err.Error(), "user ID 65534") {
		t.Errorf("got %v", err)
	}
	if err := os.Chown(data, 0, 0); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SUDO_USER", "ada")
	plan, err := ca.Plan(t.Context(), truststore.System)
	if err != nil {
		t.Fatal(err)
	}
	plan.Describe()
	if text := strings.Join(*said, "\n"); !strings.Contains(text, "this is the CA of root, and not that of ada") {
		t.Errorf("it said %s", text)
	}
	if _, err := plan.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	// One that the user made can be installed by root; the record belongs to the user.
	err = filepath.WalkDir(data, func(path string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Chown(path, nobody, nobody))
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(ca.Dir, "installed.pem")); err != nil {
		t.Fatal(err)
	}
	if plan, err = ca.Plan(t.Context(), truststore.System); err != nil {
		t.Fatal(err)
	}
	if _, err := plan.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(ca.Dir, "installed.pem"))
	if err != nil || info.Sys().(*syscall.Stat_t).Uid != nobody {
		t.Errorf("installed.pem is not the user's: %v", err)
	}
}
