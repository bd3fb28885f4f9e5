package daemon

import (
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// inherit makes a listener of a file descriptor that the manager has passed. The descriptor itself
// is closed.
func inherit(fd int, name string) (net.Listener, error) {
	unix.CloseOnExec(fd)
	f := os.NewFile(uintptr(fd), name)
	defer func() { _ = f.Close() }()
	listening, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
	if err != nil {
		return nil, fmt.Errorf("file descriptor %d (%s) is not a socket: %w", fd, name, err)
	}
	if listening == 0 {
		return nil, fmt.Errorf("file descriptor %d (%s) is a socket that does not listen; "+
			"use ListenStream= and Accept=no in the socket unit", fd, name)
	}
	l, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("file descriptor %d (%s): %w", fd, name, err)
	}
	return l, nil
}

// monotonic returns the time of the clock that managers compare with.
func monotonic() time.Duration {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // this clock is always there
	return time.Duration(now.Nano())
}
