package filetool

import (
	"os"
	"syscall"
)

const procMagic = 0x9fa0 // PROC_SUPER_MAGIC

// inProc reports whether a file is in procfs, where files are the memory and the environment of
// processes, perigee's included.
func inProc(f *os.File) bool {
	var stat syscall.Statfs_t
	var err error
	conn, connErr := f.SyscallConn()
	if connErr != nil {
		return false
	}
	if connErr = conn.Control(func(fd uintptr) { err = syscall.Fstatfs(int(fd), &stat) }); connErr != nil {
		return false
	}
	return err == nil && stat.Type == procMagic
}
