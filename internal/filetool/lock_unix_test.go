//go:build unix

package filetool_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"perigee"
	"perigee/internal/filetool"
)

// Another process of perigee is about to replace the file: a write waits for it, and then sees what the file has become.
func TestWriteWaitsForAnotherProcess(t *testing.T) {
	r := newRig(t, map[string]string{"sub/f": "old"})
	other, err := os.Open(r.path("sub"))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := unix.Flock(int(other.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := r.tools.Write(t.Context(), filetool.WriteInput{Path: "sub/f", Content: "late", ExpectedSHA256: new(hashOf("old"))})
		done <- err
	}()
	for start := time.Now(); ; time.Sleep(time.Millisecond) {
		if ready, _ := filepath.Glob(r.path("sub/.perigee-*.tmp")); len(ready) == 1 {
			break
		}
		select {
		case err := <-done:
			t.Fatalf("it did not wait: %v", err)
		default:
		}
		if time.Since(start) > time.Minute {
			t.Fatal("nothing was written in a minute")
		}
	}
	select {
	case err := <-done:
		t.Fatalf("it did not wait: %v", err)
	case <-time.After(50 * time.Millisecond): // time in which a write without a lock would end
	}
	r.put("sub/f", "early")
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	refused(t, <-done, perigee.ClassInvalid, "has changed", hashOf("early"))
	if r.get("sub/f") != "early" {
		t.Errorf("got %q", r.get("sub/f"))
	}
	r.noTemporaryFiles()
}
