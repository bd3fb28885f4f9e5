//go:build unix

package connlimit

import "syscall"

// descriptors is how many file descriptors this process may have; 0: that is not known. The runtime
// of Go has raised the soft limit to the hard one.
func descriptors() uint64 {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return uint64(limit.Cur)
}
