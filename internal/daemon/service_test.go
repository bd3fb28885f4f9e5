package daemon_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"

	"perigee/internal/daemon"
	"perigee/internal/testing/daemontest"
	"perigee/internal/testing/perigeetest/await"
)

// An echoService sends each line back. It is a whole service: a listener that drains.
type echoService struct {
	listener net.Listener
	mu       sync.Mutex
	conns    []net.Conn
	open     sync.WaitGroup
}

func (e *echoService) Start(_ context.Context, failed func(error)) (err error) {
	if e.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return err
	}
	go func() {
		for {
			conn, err := e.listener.Accept()
			if err != nil {
				failed(err)
				return
			}
			e.mu.Lock()
			e.conns = append(e.conns, conn)
			e.mu.Unlock()
			e.open.Go(func() {
				defer func() { _ = conn.Close() }()
				for lines := bufio.NewScanner(conn); lines.Scan(); {
					_, _ = fmt.Fprintln(conn, lines.Text())
				}
			})
		}
	}()
	return nil
}

func (e *echoService) Drain(ctx context.Context) error {
	_ = e.listener.Close()
	done := make(chan struct{})
	go func() { e.open.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (e *echoService) Close(ctx context.Context) error {
	_ = e.listener.Close()
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, conn := range e.conns {
		_ = conn.Close()
	}
	return e.Drain(ctx)
}

// An echoClient has a connection to an echoService.
type echoClient struct {
	conn  net.Conn
	lines *bufio.Scanner
}

func (e *echoService) dial(t *testing.T) *echoClient {
	t.Helper()
	conn, err := net.Dial("tcp", e.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &echoClient{conn, bufio.NewScanner(conn)}
}

func (c *echoClient) echoes(line string) bool {
	_, err := fmt.Fprintln(c.conn, line)
	return err == nil && c.lines.Scan() && c.lines.Text() == line
}

func TestServiceDrainsWhenTheDaemonStops(t *testing.T) {
	t.Parallel()
	echo := &echoService{}
	g := daemontest.Start(t, "", func(o *daemon.Options) { o.Services = []daemon.Service{echo} })
	client := echo.dial(t)
	if !client.echoes("one") {
		t.Fatal("no echo")
	}
	stopped := daemontest.Stopping(context.Background(), g)
	await.Until(t, "the service takes no connections", func() bool {
		conn, err := net.Dial("tcp", echo.listener.Addr().String())
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
	if !client.echoes("two") {
		t.Error("the open connection was cut off while it drains")
	}
	select {
	case <-stopped:
		t.Error("stopped with a connection open")
	default:
	}
	_ = client.conn.Close()
	await.Receive(t, stopped, "the daemon to stop")
	select {
	case err := <-g.Daemon.Failed():
		t.Errorf("the end of a service is reported as a failure: %v", err)
	default:
	}
}

func TestServiceIsClosedWhenDrainingTakesTooLong(t *testing.T) {
	t.Parallel()
	echo := &echoService{}
	g := daemontest.Start(t, "", func(o *daemon.Options) { o.Services = []daemon.Service{echo} })
	client := echo.dial(t)
	if !client.echoes("one") {
		t.Fatal("no echo")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	await.Receive(t, daemontest.Stopping(ctx, g), "the daemon to stop")
	if client.echoes("two") {
		t.Error("the connection outlives the daemon")
	}
}

func TestServiceThatFails(t *testing.T) {
	t.Parallel()
	dir, first := daemontest.DataDir(t), &echoService{}
	_, err := daemontest.Launch(t.Context(), daemontest.Sources("", dir), func(o *daemon.Options) {
		o.Services = []daemon.Service{first, brokenService{}}
	})
	if !errors.Is(err, errBroken) {
		t.Fatalf("got %v", err)
	}
	if _, err := net.Dial("tcp", first.listener.Addr().String()); err == nil {
		t.Error("a service that was started before still runs")
	}
	later := &echoService{}
	g := daemontest.StartIn(t, daemontest.Sources("", dir), func(o *daemon.Options) { o.Services = []daemon.Service{later} })
	_ = later.listener.Close() // it breaks
	if err := await.Receive(t, g.Daemon.Failed(), "the failure of the service"); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v", err)
	}
}

var errBroken = errors.New("broken")

type brokenService struct{ daemon.Service }

func (brokenService) Start(context.Context, func(error)) error { return errBroken }
