package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"testing"
	"time"

	"perigee/internal/lib/wire"
)

// lateRig is a provider, and a client of it as perigee has one. Requests to its first upstream go
// through a network that can be slow.
type lateRig struct {
	t             *testing.T
	provider      *provider
	client        *http.Client
	first, second string
	held          chan struct{} // closed when requests to the first upstream arrive again
	slow          chan struct{} // closed when they arrive no more
}

func newLateRig(t *testing.T) *lateRig {
	t.Helper()
	r := &lateRig{t: t, held: make(chan struct{}), slow: make(chan struct{})}
	config, err := newCertificate(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if r.provider, err = newProvider(1, "http://127.0.0.1:1"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.provider.close)
	behind, err := r.provider.listen(first, 0, config)
	if err != nil {
		t.Fatal(err)
	}
	if r.second, err = r.provider.listen(second, 0, nil); err != nil {
		t.Fatal(err)
	}
	front, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = front.Close() })
	r.first = "https://" + front.Addr().String()
	go r.carry(front, strings.TrimPrefix(behind, "https://"))
	transport := wire.NewTransport()
	transport.Configure(func(h *http.Transport) { h.TLSClientConfig = &tls.Config{InsecureSkipVerify: true} })
	t.Cleanup(transport.CloseIdleConnections)
	r.client = wire.NewClient(transport)
	return r
}

// carry is the network before the first upstream.
func (r *lateRig) carry(l net.Listener, to string) {
	for {
		from, err := l.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", to)
		if err != nil {
			_ = from.Close()
			continue
		}
		go func() { _, _ = io.Copy(from, server); _ = from.Close() }()
		go func() { _, _ = io.Copy(lateWriter{server, r}, from); _ = server.Close() }()
	}
}

type lateWriter struct {
	net.Conn
	rig *lateRig
}

func (w lateWriter) Write(b []byte) (int, error) {
	select {
	case <-w.rig.slow:
		<-w.rig.held
	default:
	}
	return w.Conn.Write(b)
}

// ask asks an upstream for an answer of three chunks.
func (r *lateRig) ask(ctx context.Context, url, tag string) error {
	ask := fmt.Sprintf("{%q: %q}", "text", askWord+tag+" 3 text kind ")
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1beta/models/m:streamGenerateContent", strings.NewReader(ask))
	if err != nil {
		r.t.Fatal(err)
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// A request that was sent and given up before another upstream was asked can be read after the
// other one. It is not one that was sent after the answer began.
func TestGivenUpRequestIsReadLate(t *testing.T) {
	r := newLateRig(t)
	arrive := sync.OnceFunc(func() { close(r.held) })
	r.provider.settle = func(ctx context.Context) {
		select {
		case <-r.slow:
		default:
			return
		}
		arrive()
		for r.provider.sent("c1", 1).attempts < 2 && ctx.Err() == nil {
			wait(ctx, time.Millisecond)
		}
	}
	if err := r.ask(t.Context(), r.first, "c0"); err != nil {
		t.Fatal(err)
	}
	close(r.slow)
	ctx, giveUp := context.WithCancel(t.Context())
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { giveUp() }})
	if err := r.ask(ctx, r.first, "c1"); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	if err := r.ask(t.Context(), r.second, "c1"); err != nil {
		t.Fatal(err)
	}
	if got := r.provider.sent("c1", 1); got.attempts != 2 || got.later != 0 {
		t.Errorf("late: %+v\n%s", got, r.provider.history("c1"))
	}
	if err := r.ask(t.Context(), r.first, "c1"); err != nil {
		t.Fatal(err)
	}
	if got := r.provider.sent("c1", 1); got.attempts != 3 || got.later != 1 {
		t.Errorf("asked again: %+v\n%s", got, r.provider.history("c1"))
	}
}
