//go:build !linux

package filetool

import "os"

// inProc reports whether a file is in procfs, which only Linux has in this form.
func inProc(*os.File) bool { return false }
