//go:build unix

package config

import "syscall"

// canWrite says whether files can be made in a directory.
func canWrite(dir string) bool {
	const write, search = 2, 1 // as W_OK and X_OK of access(2)
	return syscall.Access(dir, write|search) == nil
}
