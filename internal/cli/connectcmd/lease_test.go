package connectcmd

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"perigee/internal/testing/perigeetest/await"
)

func TestALeaseLastsUntilItIsGiven(t *testing.T) {
	d := leaseDir(filepath.Join(t.TempDir(), "run"))
	held := func() bool {
		t.Helper()
		done, err := d.Turn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer done()
		held, err := d.InUse(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return held
	}
	if held() {
		t.Error("a lease without a process")
	}
	first, err := d.Take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	second, err := d.Take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	first.Give()
	if !held() {
		t.Error("the second lease has gone with the first")
	}
	second.Give()
	if held() {
		t.Error("a lease that was given is held")
	}
}

func TestALeaseOfAKilledProcessIsRemoved(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "left.lease")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	held, err := leaseDir(dir).InUse(t.Context())
	if err != nil || held {
		t.Errorf("got %v, %v", held, err)
	}
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("the file is left: %v", err)
	}
}

// A child process that inherits the file holds the lease when this process is killed.
func TestALeaseLastsAsLongAsAChildThatInheritsIt(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("locks are not inherited there")
	}
	d := leaseDir(t.TempDir())
	l, err := d.Take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), "sleep", "600")
	child.ExtraFiles = []*os.File{l.File}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if err := l.File.Close(); err != nil { // as if this process was killed
		t.Fatal(err)
	}
	if held, err := d.InUse(t.Context()); err != nil || !held {
		t.Errorf("the child holds no lease: %v", err)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = await.Result(t, child.Wait, "the end of the child")
	if held, err := d.InUse(t.Context()); err != nil || held {
		t.Errorf("a child that has ended holds a lease: %v", err)
	}
}

// A lease that is taken while another process looks at the leases is seen from then on.
func TestALeaseIsNeverInvisible(t *testing.T) {
	d := leaseDir(t.TempDir())
	done := make(chan struct{})
	var looking sync.WaitGroup
	for range 6 {
		looking.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					if _, err := d.InUse(t.Context()); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	for range 100 {
		l, err := d.Take(t.Context())
		if err != nil {
			t.Error(err)
			break
		}
		if held, err := d.InUse(t.Context()); err != nil || !held {
			t.Errorf("a lease that was taken is not seen: %v", err)
		}
		l.Give()
	}
	close(done)
	await.Return(t, looking.Wait, "those that look")
}

func TestATurnIsForOne(t *testing.T) {
	d := leaseDir(t.TempDir())
	done, err := d.Turn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.Turn(ctx); err == nil {
		t.Error("two have a turn")
	}
	done()
	again, err := d.Turn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	again()
}
