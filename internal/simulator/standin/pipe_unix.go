//go:build !windows

package standin

import (
	"io"
	"net"
)

func dialPipe(path string) (io.ReadWriteCloser, error) { return net.Dial("unix", path) }
