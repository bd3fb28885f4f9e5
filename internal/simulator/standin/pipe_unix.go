//go:build !windows

package langserver

import (
	"io"
	"net"
)

func dialPipe(path string) (io.ReadWriteCloser, error) { return net.Dial("unix", path) }
