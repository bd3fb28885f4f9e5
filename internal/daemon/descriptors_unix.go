//go:build unix

package daemon

import "syscall"

// spareDescriptors are for the database, the log, sockets and connections to providers that are kept.
const spareDescriptors = 64

// descriptors is how many file descriptors this process may have; 0: that is not known. The runtime of Go has raised the soft
// limit to the hard one.
func descriptors() uint64 {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return uint64(limit.Cur)
}
