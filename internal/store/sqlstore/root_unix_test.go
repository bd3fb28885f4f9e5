//go:build unix

package sqlstore

import (
	"os"
	"syscall"
)

// dropRoot makes this process an ordinary one for good.
func dropRoot() error {
	if os.Geteuid() != 0 {
		return nil
	}
	const nobody = 65534
	return syscall.Setuid(nobody)
}
