//go:build unix

package langserver

import (
	"net"
	"sync"
	"testing"

	"perigee/internal/perigeetest/await"
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
