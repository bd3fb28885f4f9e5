package standin

import (
	"io"
	"net"
	"os"
	"strings"
)

// dialPipe connects to a named pipe, or to a unix socket.
func dialPipe(path string) (io.ReadWriteCloser, error) {
	if strings.HasPrefix(path, `\\.\pipe\`) {
		return os.OpenFile(path, os.O_RDWR, 0)
	}
	return net.Dial("unix", path)
}
