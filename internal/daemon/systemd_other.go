//go:build !linux

package daemon

import (
	"errors"
	"net"
	"time"
)

func inherit(int, string) (net.Listener, error) {
	return nil, errors.New("sockets can be passed to perigee on Linux only")
}

func monotonic() time.Duration { return 0 }
