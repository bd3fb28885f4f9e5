//go:build !linux

package perigeetest

import (
	"os"
	"testing"
)

// Unprivileged skips the test if root runs it, because the modes of files do not apply to root.
func Unprivileged(t *testing.T) {
	t.Helper()
	if os.Geteuid() == 0 {
		t.Skip("the modes of files do not apply to root")
	}
}
