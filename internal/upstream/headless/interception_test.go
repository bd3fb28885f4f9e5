package headless

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"perigee/internal/intercept/cloud"
	"perigee/internal/store/config"
	"perigee/internal/testing/perigeetest/await"
)

// A language server can leave while the proxy waits for the connections that are still open.
func TestReleaseWhileTheProxyEnds(t *testing.T) {
	t.Parallel()
	i := NewInterception(InterceptionOptions{
		Interception: config.Interception{Listen: "127.0.0.1:0", Hosts: []string{"*-cloudcode-pa.googleapis.com"}},
		DataDir:      t.TempDir(), Logger: testLogger(t), Now: time.Now,
	})
	handler, err := cloud.New(cloud.Options{Cloud: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := i.use(t.Context(), modeProxy, handler); err != nil {
		t.Fatal(err)
	}
	server, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	client, err := net.Dial("tcp4", i.address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	fmt.Fprintf(client, "CONNECT %s HTTP/1.1\r\nHost: %[1]s\r\n\r\n", server.Addr())
	if line, err := bufio.NewReader(client).ReadString('\n'); err != nil || !strings.Contains(line, " 200 ") {
		t.Fatalf("got %q, %v", line, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	closed := make(chan error, 1)
	go func() { closed <- i.Close(ctx) }()
	await.Until(t, "the end of the listener", func() bool {
		conn, err := net.Dial("tcp4", i.address)
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
	await.Return(t, func() { i.release(handler) }, "the release of a handler")
	if len(closed) != 0 {
		t.Error("the proxy has not waited for its connection")
	}
	cancel()
	await.Receive(t, closed, "the end of the proxy")
}
