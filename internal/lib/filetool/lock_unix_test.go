//go:build unix

package filetool_test

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"perigee"
	"perigee/internal/lib/filetool"
	"perigee/internal/testing/perigeetest/await"
)

// Another process of perigee is about to replace the file: a write waits for it, and then sees what
// the file has become.
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
	await.Until(t, "the new content", func() bool {
		ready, _ := filepath.Glob(r.path("sub/.perigee-*.tmp"))
		return len(ready) == 1 || len(done) > 0
	})
	for range 10 { // a write without a lock would end before these
		r.write(filetool.WriteInput{Path: "other", Content: "x"})
	}
	if len(done) > 0 {
		t.Fatalf("it did not wait: %v", await.Receive(t, done, "the write"))
	}
	r.put("sub/f", "early")
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	refused(t, await.Receive(t, done, "the write"), perigee.ClassInvalid, "has changed", hashOf("early"))
	if r.get("sub/f") != "early" {
		t.Errorf("got %q", r.get("sub/f"))
	}
	r.noTemporaryFiles()
}
