//go:build unix

package supervisor

import (
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestUmaskByShell(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", `umask; echo "$0" "$@"`, "two words", "$HOME", `"`)
	cmd.Env = []string{"A=b"}
	umaskByShell(cmd)
	out, err := cmd.Output()
	if want := "0077\ntwo words $HOME \"\n"; strings.TrimPrefix(string(out), "0") != strings.TrimPrefix(want, "0") || err != nil {
		t.Errorf("got %q, %v", out, err)
	}
}

func TestParentPipeEndsWithItsOwner(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", shortDir(t))
	p, err := listenParentPipe(nil)
	if err != nil {
		t.Fatal(err)
	}
	path := p.path()
	if !strings.HasPrefix(path, os.Getenv("XDG_RUNTIME_DIR")+"/perigee/server_") {
		t.Errorf("path %s", path)
	}
	if info, _ := os.Stat(filepath.Dir(path)); info.Mode().Perm() != 0o700 {
		t.Errorf("mode %v", info.Mode())
	}
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write([]byte("hello")); err != nil {
		t.Error(err)
	}
	p.close()
	p.close()
	if _, err := io.ReadAll(conn); err != nil && !strings.Contains(err.Error(), "reset") {
		t.Error(err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the socket is left: %v", err)
	}
	var none *parentPipe
	if none.close(); none.path() != "" {
		t.Error("no pipe has a path")
	}
}

func TestParentPipeHasAShortPathAndRemovesDeadSockets(t *testing.T) {
	long := filepath.Join(shortDir(t), strings.Repeat("long", 30))
	if err := os.Mkdir(long, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_RUNTIME_DIR", long)
	dir, err := socketDir(nil)
	if err != nil || !strings.HasPrefix(dir, "/tmp/perigee-") {
		t.Errorf("got %s, %v", dir, err)
	}

	dir = shortDir(t)
	live, err := net.Listen("unix", filepath.Join(dir, "server_live"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = live.Close() }()
	dead, err := net.Listen("unix", filepath.Join(dir, "server_dead"))
	if err != nil {
		t.Fatal(err)
	}
	dead.(*net.UnixListener).SetUnlinkOnClose(false)
	_ = dead.Close()
	removeDead(dir)
	entries, _ := os.ReadDir(dir)
	if len(entries) != 1 || entries[0].Name() != "server_live" {
		t.Errorf("got %v", entries)
	}
}

func TestPrivateDirRefusesForeignThings(t *testing.T) {
	dir := shortDir(t)
	target := filepath.Join(dir, "target")
	if err := os.Mkdir(target, 0o777); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	if err := ownDir(link, 0o700); err == nil {
		t.Error("a link was accepted")
	}
	if err := ownDir(target, 0o700); err != nil {
		t.Error(err)
	}
	if info, _ := os.Stat(target); info.Mode().Perm() != 0o700 {
		t.Errorf("mode %v", info.Mode())
	}
}

// shortDir is a directory whose path leaves room for a socket.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "ls")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
