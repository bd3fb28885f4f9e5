package wire

import (
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func setSocketOptions(fd uintptr) {
	_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, maxUnsent)
}

// An ackCheck ends a connection if its peer has acknowledged nothing for a time. The kernel's own
// TCP_USER_TIMEOUT does not distinguish a peer that is gone from one that has a full buffer, such
// as a server that thinks before it reads a large body.
type ackCheck struct {
	conn    net.Conn
	raw     syscall.RawConn
	timeout time.Duration
	timer   *time.Timer
	pending atomic.Bool // the timer is set, or a check runs
	again   atomic.Bool // something was written since the last check began
	acked   uint64      // bytes in all, at the last check
	since   time.Time   // when the pending bytes were written, or some of them were acknowledged
}

// maxProbes is how many probes of a connection that cannot send may go unanswered. Those of a peer
// with a full buffer are answered one by one. Where the local address is gone nothing can be sent
// at all, and the kernel sends keep-alives only when nothing is to be sent.
const maxProbes = 2

// ackChecks is how often a connection that has something to be acknowledged is checked within the
// time.
const ackChecks = 5

func (a *ackCheck) init(c net.Conn, timeout time.Duration) {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return
	}
	a.conn, a.raw, a.timeout = c, raw, timeout
	a.timer = time.AfterFunc(time.Hour, a.check)
	a.timer.Stop()
}

// wrote starts the check for the bytes written so far.
func (a *ackCheck) wrote() {
	if a.raw == nil {
		return
	}
	a.again.Store(true)
	a.start()
}

// start sets the timer unless it is set.
func (a *ackCheck) start() {
	if !a.pending.Load() && a.pending.CompareAndSwap(false, true) {
		a.since = time.Now()
		a.timer.Reset(a.timeout / ackChecks)
	}
}

func (a *ackCheck) check() {
	a.again.Store(false) // bytes written from here on may not be in the kernel's answer
	var info *unix.TCPInfo
	var failed error
	if err := a.raw.Control(func(fd uintptr) {
		info, failed = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	}); err != nil || failed != nil {
		return // closed
	}
	if info.Bytes_acked != a.acked {
		a.acked, a.since = info.Bytes_acked, time.Now()
	}
	if info.Unacked == 0 && info.Notsent_bytes > 0 && info.Probes < maxProbes {
		a.since = time.Now() // the peer announces a full buffer
	}
	switch {
	case info.Unacked == 0 && info.Notsent_bytes == 0:
		if a.pending.Store(false); a.again.Load() {
			a.start()
		}
	case time.Since(a.since) >= a.timeout:
		_ = a.conn.SetDeadline(longAgo) // reads and writes fail with os.ErrDeadlineExceeded
	default:
		a.timer.Reset(a.timeout / ackChecks)
	}
}

var longAgo = time.Unix(1, 0)
