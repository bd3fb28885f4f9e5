package filetool_test

import (
	"testing"

	"golang.org/x/sys/unix"

	"perigee/internal/lib/filetool"
)

func TestAttributesAreKept(t *testing.T) {
	r := newRig(t, map[string]string{"f": "old"})
	if err := unix.Setxattr(r.path("f"), "user.origin", []byte("here"), 0); err != nil {
		t.Skip(err)
	}
	r.write(filetool.WriteInput{Path: "f", Content: "new"})
	buf := make([]byte, 100)
	if n, err := unix.Getxattr(r.path("f"), "user.origin", buf); err != nil || string(buf[:n]) != "here" {
		t.Errorf("got %q, %v", buf[:max(n, 0)], err)
	}
}
