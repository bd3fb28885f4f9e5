//go:build !linux

package wire

import (
	"net"
	"time"
)

// An ackCheck does nothing where the kernel itself can end a connection if its peer acknowledges
// nothing.
type ackCheck struct{}

func (ackCheck) init(net.Conn, time.Duration) {}
func (ackCheck) wrote()                       {}
