package mitm

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"
)

// A Tunnel is a connection with bytes that were forwarded unread.
type Tunnel struct {
	Address  string // its destination, as host:port
	Began    time.Time
	Took     time.Duration
	Sent     int64 // bytes from the client
	Received int64 // bytes to the client
	Err      error // nil if both sides have ended it
}

var errIdle = errors.New("no bytes in either direction for the idle time of a tunnel")

// tunnel passes bytes between a client and a server until both have ended, and closes both. The end
// of one direction is passed on while the other one continues.
func (p *Proxy) tunnel(client *clientConn, server net.Conn, address string, began time.Time) {
	t := &tunnel{idle: p.opts.IdleTimeout}
	t.moved.Store(time.Now().UnixNano())
	sent := make(chan int64, 1)
	go func() { sent <- t.copy(server, client.Conn, client.prefix) }()
	received := t.copy(client.Conn, server, nil)
	result := Tunnel{Address: address, Began: began, Received: received, Sent: <-sent}
	_ = server.Close()
	_ = client.Close()
	result.Took = time.Since(began)
	if err := t.err.Load(); err != nil {
		result.Err = *err
	}
	p.opts.Tunnelled(result)
}

type tunnel struct {
	idle  time.Duration
	moved atomic.Int64 // when bytes were last passed on, in Unix nanoseconds
	err   atomic.Pointer[error]
}

// copy forwards bytes in one direction. Between two TCP connections they do not leave the kernel
// on Linux.
//
// Reads have deadlines, after which copy checks whether bytes have moved. The deadline of writes
// is later by the idle time: a write that reaches it has waited for at least that long.
func (t *tunnel) copy(dst, src net.Conn, first []byte) (n int64) {
	fail := func(err error) int64 {
		t.err.CompareAndSwap(nil, &err)
		_ = dst.Close() // which also ends the other direction
		_ = src.Close()
		return n
	}
	if len(first) > 0 {
		_ = dst.SetWriteDeadline(time.Now().Add(t.idle))
		written, err := dst.Write(first)
		n += int64(written)
		if err != nil {
			return fail(err)
		}
	}
	period := t.idle / 4
	for {
		now := time.Now()
		writesUntil := now.Add(period + t.idle)
		_ = src.SetReadDeadline(now.Add(period))
		_ = dst.SetWriteDeadline(writesUntil)
		moved, err := io.Copy(dst, src)
		n += moved
		if moved > 0 {
			t.moved.Store(time.Now().UnixNano())
		}
		switch {
		case err == nil:
			if closeWrite(dst) != nil {
				_ = dst.Close()
				_ = src.Close()
			}
			return n
		case !errors.Is(err, os.ErrDeadlineExceeded) || !time.Now().Before(writesUntil):
			return fail(err)
		// bytes of the last period may not be recorded yet
		case time.Since(time.Unix(0, t.moved.Load())) >= t.idle+period:
			return fail(errIdle)
		}
	}
}
