package lsclient

import (
	"context"
	"io"
	"net"
	"testing"
	"time"
)

// A port that never answers the handshake of TLS does not keep the connection longer than the call.
func TestConnectionsEndWithTheirCall(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan time.Duration, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		hello := make([]byte, 1)
		_, _ = io.ReadFull(conn, hello)
		cancel()
		start := time.Now()
		_, _ = io.Copy(io.Discard, conn)
		ended <- time.Since(start)
	}()
	client := New(Options{Endpoint: Fixed(Endpoint{HTTPS: listener.Addr().(*net.TCPAddr).Port})})
	if err := client.Heartbeat(ctx); err == nil {
		t.Error("the call succeeded")
	}
	if took := <-ended; took >= dialTimeout {
		t.Errorf("the connection ended %v after the call", took)
	}
}
