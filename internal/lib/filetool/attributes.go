//go:build linux || darwin

package filetool

import (
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

const maxAttribute = 64 << 10 // bytes, as on Linux

// copyAttributes gives a new file the access control list and the extended attributes of the file
// old, as far as the user may. Attributes of the security system, such as capabilities, are not
// copied: a write removes them too.
func copyAttributes(to *os.File, dir *os.Root, name string, old fs.FileInfo) {
	from, err := dir.OpenFile(name, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return
	}
	defer func() { _ = from.Close() }()
	if info, err := from.Stat(); err != nil || !os.SameFile(info, old) {
		return // it was replaced concurrently
	}
	withDescriptors(from, to, func(from, to int) {
		buf := make([]byte, maxAttribute)
		n, err := unix.Flistxattr(from, buf)
		if err != nil || n <= 0 {
			return
		}
		for _, attribute := range strings.Split(strings.TrimRight(string(buf[:n]), "\x00"), "\x00") {
			if strings.HasPrefix(attribute, "security.") || strings.HasPrefix(attribute, "trusted.") {
				continue
			}
			if n, err := unix.Fgetxattr(from, attribute, buf); err == nil && n >= 0 {
				_ = unix.Fsetxattr(to, attribute, buf[:n], 0)
			}
		}
	})
}

func withDescriptors(a, b *os.File, f func(a, b int)) {
	first, err := a.SyscallConn()
	if err != nil {
		return
	}
	second, err := b.SyscallConn()
	if err != nil {
		return
	}
	_ = first.Control(func(a uintptr) {
		_ = second.Control(func(b uintptr) { f(int(a), int(b)) })
	})
}
