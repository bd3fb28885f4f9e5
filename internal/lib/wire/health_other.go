//go:build !linux

package wire

import (
	"net"
	"time"
)

// An ackCheck does nothing where the kernel can be told to end a connection whose peer acknowledges
// nothing.
type ackCheck struct{}

func (ackCheck) init(net.Conn, time.Duration) {}
func (ackCheck) wrote()                       {}
