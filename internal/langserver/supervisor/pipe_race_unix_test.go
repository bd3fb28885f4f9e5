//go:build unix

package supervisor

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"perigee/internal/testing/perigeetest/await"
)

// A socket that is being made is not taken for one of a killed perigee.
func TestNewSocketsAreNotRemoved(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	dir, err := socketDir(nil)
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var removing sync.WaitGroup
	for range 4 {
		removing.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					removeDead(dir)
				}
			}
		})
	}
	for range 500 {
		p, err := listenParentPipe(nil)
		if err != nil {
			t.Error(err)
			break
		}
		conn, err := net.Dial("unix", p.path())
		if err != nil {
			t.Error(err)
			p.close()
			break
		}
		_ = conn.Close()
		p.close()
	}
	close(stop)
	await.Return(t, removing.Wait, "the end of the removals")
}

// Another user can take the name of the directory first. Then there is another one, which is found
// again.
func TestTakenSocketDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "perigee-1")
	got, err := temporaryDir(dir, 0o711)
	if err != nil || got != dir {
		t.Fatalf("got %s, %v", got, err)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	for _, taken := range []string{dir, dir + ".0"} { // a link is no directory of this user
		if err := os.Symlink(t.TempDir(), taken); err != nil {
			t.Fatal(err)
		}
	}
	first, err := temporaryDir(dir, 0o711)
	info, lost := os.Lstat(first)
	if err != nil || lost != nil || !strings.HasPrefix(first, dir+".") || !info.IsDir() || info.Mode().Perm() != 0o711 {
		t.Fatalf("got %s, %v, %v", first, err, lost)
	}
	if again, err := temporaryDir(dir, 0o711); again != first || err != nil {
		t.Errorf("then %s, %v", again, err)
	}
}
