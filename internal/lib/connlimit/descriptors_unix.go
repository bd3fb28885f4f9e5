//go:build unix

package connlimit

import "syscall"

// descriptors returns how many file descriptors this process may have; 0 if unknown. The Go runtime
// has raised the soft limit to the hard one.
func descriptors() uint64 {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return uint64(limit.Cur)
}
