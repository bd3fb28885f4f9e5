package lsclient

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"perigee/internal/testing/perigeetest"
)

// A port that never answers the handshake of TLS does not keep the connection longer than the call.
func TestConnectionsEndWithTheirCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pipes := perigeetest.NewPipes()
		client := connected(Endpoint{HTTPS: 1})
		client.http = newHTTPClient(pipes.Dial)
		ctx, cancel := context.WithCancel(t.Context())
		called := make(chan error, 1)
		go func() { called <- client.Heartbeat(ctx) }()
		conn, err := pipes.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		cancel()
		_, _ = io.Copy(io.Discard, conn)
		if took := time.Since(begun); took != 0 {
			t.Errorf("the connection ended %v after the call", took)
		}
		if err := <-called; err == nil {
			t.Error("the call succeeded")
		}
	})
}
