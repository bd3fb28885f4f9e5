//go:build !linux && !darwin

package filetool

import (
	"io/fs"
	"os"
)

func copyAttributes(*os.File, *os.Root, string, fs.FileInfo) {}
