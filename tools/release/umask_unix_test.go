//go:build unix

package release

import (
	"syscall"
	"testing"
)

// umask sets the umask until the end of the test.
func umask(t *testing.T, mask int) {
	before := syscall.Umask(mask)
	t.Cleanup(func() { syscall.Umask(before) })
}
