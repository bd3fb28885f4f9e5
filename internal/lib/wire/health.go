package wire

import (
	"net"
	"syscall"
	"time"
)

// A change of network, a laptop that wakes up or a NAT that drops its table leaves connections on
// which nothing arrives any more. The kernel closes them after a quarter of an hour, HTTP/2 never.
// With these settings a request that waits on such a connection fails after five to seven seconds,
// so that it can be answered on another within ten, while a provider that is silent on a live
// connection is waited for as long as the configuration allows: pings and probes are answered
// without it.
const (
	// pingAfter and pingTimeout are for HTTP/2: a connection on which nothing was read for
	// pingAfter is sent a ping, and closed when the answer does not come within pingTimeout.
	pingAfter   = 3 * time.Second
	pingTimeout = 3 * time.Second
	// ackTimeout is how long sent bytes may go without the peer's kernel acknowledging any. A peer
	// that announces a full receive window is waited for.
	ackTimeout = 5 * time.Second
	// maxUnsent bounds the bytes in the kernel that wait to be sent, because a ping waits behind
	// them: on a slow uplink the body of one request would otherwise delay it by more than
	// pingTimeout.
	maxUnsent = 64 << 10
)

// keepAlive has the kernel probe connections on which nothing is to be acknowledged, which is how
// HTTP/1.1 waits for an answer.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 3 * time.Second, Interval: 2 * time.Second, Count: 2}

// control sets the socket options that net.Dialer has no field for. A system that refuses one is
// left with keep-alive and pings.
func control(_, _ string, raw syscall.RawConn) error {
	return raw.Control(setSocketOptions)
}
