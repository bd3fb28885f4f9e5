package wire

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"perigee/internal/testing/perigeetest"
	"perigee/internal/testing/perigeetest/await"
)

// uplink passes connections on to a server, with so many bytes a second in that direction and a
// small buffer.
//
// Real time: it paces what the kernel sends.
func uplink(t *testing.T, server string, rate int) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var open sync.WaitGroup
	open.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			_ = near.(*net.TCPConn).SetReadBuffer(16 << 10)
			far, err := net.Dial("tcp", server)
			if err != nil {
				_ = near.Close()
				continue
			}
			open.Go(func() { _, _ = io.Copy(near, far); _ = near.Close() })
			open.Go(func() {
				buf := make([]byte, rate/20)
				for {
					n, err := near.Read(buf)
					if _, failed := far.Write(buf[:n]); failed != nil || err != nil {
						_ = far.Close()
						return
					}
					time.Sleep(time.Duration(n) * time.Second / time.Duration(rate))
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		await.Return(t, open.Wait, "the connections of the uplink")
	})
	return listener.Addr().String()
}

// A large body on a slow uplink does not delay pings so long that the connection is taken for dead.
// The server has a large window and reads late, so it sends nothing that would make pings
// unnecessary.
//
// Real time: how much the kernel keeps of a body is what is tested. TestUnsentBytesAreBounded looks
// at its setting.
func TestSlowUplinkIsNotDead(t *testing.T) {
	perigeetest.Slow(t)
	t.Parallel()
	const size, rate = 3 << 19, 256 << 10
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(pingAfter + 2*pingTimeout)
		echo(w, r)
	}))
	server.EnableHTTP2 = true
	server.Config.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerConnection: 2 * size, MaxReceiveBufferPerStream: 2 * size}
	server.StartTLS()
	t.Cleanup(server.Close)
	transport := NewTransport()

	trust(transport, server)
	r := &healthRig{client: NewClient(transport), url: "https://" + uplink(t, server.Listener.Addr().String(), rate)}
	t.Cleanup(r.client.CloseIdleConnections)
	began := time.Now()
	answer, resent, err := r.post(t.Context(), strings.Repeat("x", size))
	if answer != fmt.Sprintf("HTTP/2.0 %d", size) || resent > 0 || err != nil {
		t.Errorf("got %q, sent again %d times, %v", answer, resent, err)
	}
	if took := time.Since(began); took < size/rate*time.Second/2 {
		t.Errorf("%s is no slow uplink", took)
	}
}
