package wire

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"perigee/internal/testing/perigeetest"
	"perigee/internal/testing/perigeetest/await"
)

// ackSoon is ackTimeout in tests with real connections. The kernel acknowledges at once however
// busy the machine is.
const ackSoon = 500 * time.Millisecond

// A healthRig is a server that names the protocol it was asked with, behind a relay whose
// connections can die.
type healthRig struct {
	server *httptest.Server
	relay  *perigeetest.Relay
	client *http.Client
	url    string

	transport *Transport
}

var protocols = []string{"HTTP/1.1", "HTTP/1.1 over TLS", "HTTP/2.0"}

func newHealthRig(t *testing.T, protocol string, handler http.HandlerFunc) *healthRig {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	transport := NewTransport()
	transport.resendWithin = time.Minute // a busy machine may take longer than production allows
	scheme := "http://"
	if server.EnableHTTP2 = protocol == "HTTP/2.0"; protocol == "HTTP/1.1" {
		server.Start()
	} else {
		scheme = "https://"
		server.StartTLS()
		trust(transport, server)
	}
	t.Cleanup(server.Close)
	r := &healthRig{server: server, relay: perigeetest.NewRelay(t, server.Listener.Addr().String()), client: NewClient(transport), transport: transport}
	r.url = scheme + r.relay.Address
	t.Cleanup(r.client.CloseIdleConnections)
	return r
}

// impatient has connections be given up as early as the kernel can, but not for a server that is
// slow to answer a ping.
func (r *healthRig) impatient() *healthRig {
	r.transport.Configure(func(t *http.Transport) {
		made := newConnector()
		made.ackTimeout = ackSoon
		probing := net.KeepAliveConfig{Enable: true, Idle: time.Second, Interval: time.Second, Count: 2}
		made.connect = (&net.Dialer{KeepAliveConfig: probing, Control: control}).DialContext
		t.DialContext = made.dial
		t.HTTP2 = &http.HTTP2Config{SendPingTimeout: time.Second, PingTimeout: await.Limit}
	})
	return r
}

// newPipeRig is a rig that speaks HTTP/2 over pipes, in the time of a bubble. The connections that
// are open are stalled when stall is called: no byte passes any more, and both ends stay open.
func newPipeRig(t *testing.T, handler http.HandlerFunc) (r *healthRig, stall func()) {
	t.Helper()
	var unencrypted http.Protocols
	unencrypted.SetUnencryptedHTTP2(true)
	pipes := perigeetest.NewPipes()
	server := &http.Server{Handler: handler, Protocols: &unencrypted}
	go func() { _ = server.Serve(pipes) }()
	t.Cleanup(func() { _ = server.Close() })
	transport := NewTransport()
	transport.resendWithin = time.Minute // a busy machine may take longer than production allows
	transport.Configure(func(t *http.Transport) {
		made := newConnector()
		made.connect = pipes.Dial
		t.DialContext, t.Protocols = made.dial, &unencrypted
	})
	r = &healthRig{client: NewClient(transport), url: "http://provider.example"}
	t.Cleanup(r.client.CloseIdleConnections)
	return r, pipes.Stall
}

// post sends a body and returns what the server says to it, and how often the request was sent
// again. It is also called in bubbles; the wait for the body has a limit of its own.
func (r *healthRig) post(ctx context.Context, body string) (answer string, resent int, err error) {
	ctx, cancel := context.WithTimeout(OnResend(ctx, func(error) { resent++ }), await.Limit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url, nil)
	if err != nil {
		return "", 0, err
	}
	sent := NewBody([]byte(body))
	defer sent.Wait()
	sent.Attach(req)
	resp, err := r.client.Do(req)
	if err != nil {
		return "", resent, err
	}
	defer resp.Body.Close()
	said, err := io.ReadAll(resp.Body)
	return string(said), resent, err
}

// echo answers with the protocol and the length of the body.
func echo(w http.ResponseWriter, r *http.Request) {
	n, _ := io.Copy(io.Discard, r.Body)
	fmt.Fprintf(w, "%s %d", r.Proto, n)
}

// together runs cases at the same time, because all they do is wait.
func together(t *testing.T, cases map[string]func() error) {
	t.Helper()
	var all sync.WaitGroup
	for name, run := range cases {
		all.Go(func() {
			if err := run(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	await.Return(t, all.Wait, "the cases")
}

// A request on a connection that has died is answered on another, and so are all later ones.
func TestDeadConnection(t *testing.T) {
	t.Parallel()
	cases := map[string]func() error{}
	for _, protocol := range protocols {
		for _, size := range []int{10, 300 << 10} {
			r := newHealthRig(t, protocol, echo).impatient()
			cases[fmt.Sprintf("%s %d", protocol, size)] = func() error {
				body, want := strings.Repeat("x", size), fmt.Sprintf("%.8s %d", protocol, size)
				for i := range 24 {
					wantResent := 0
					if i == 3 {
						if !r.relay.Drop() {
							return nil // not possible on this system
						}
						wantResent = 1
					}
					if answer, resent, err := r.post(t.Context(), body); answer != want || resent != wantResent || err != nil {
						return fmt.Errorf("call %d: %q, sent again %d times, %v", i, answer, resent, err)
					}
				}
				if n := r.relay.Accepted(); n != 2 {
					return fmt.Errorf("%d connections, want the dead one and a new one", n)
				}
				return nil
			}
		}
	}
	together(t, cases)
}

// The kernel acknowledges what is sent to a proxy that hangs. HTTP/2 finds it out with pings;
// HTTP/1.1 cannot tell it from a provider that thinks.
func TestStalledConnection(t *testing.T) {
	for _, first := range []int{0, 3} { // the call under which the connection dies
		synctest.Test(t, func(t *testing.T) {
			asked := 0
			var stall func()
			r, stall := newPipeRig(t, func(w http.ResponseWriter, req *http.Request) {
				if asked++; asked == first+1 {
					stall()
				}
				echo(w, req)
			})
			for i := range 24 {
				wantResent, wantTook := 0, time.Duration(0)
				if i == first {
					wantResent, wantTook = 1, pingAfter+pingTimeout
				}
				synctest.Wait() // the transport keeps a connection just after the call that made it
				began := time.Now()
				answer, resent, err := r.post(t.Context(), "body")
				if took := time.Since(began); answer != "HTTP/2.0 4" || resent != wantResent || err != nil || took != wantTook {
					t.Fatalf("call %d: %q, sent again %d times, %v, after %v", i, answer, resent, err, took)
				}
			}
		})
	}
}

// A server that reads a body late, so that the kernel cannot send it, is not taken for dead.
//
// Real time: what the kernel says of a full buffer for longer than the time-out is what is tested.
func TestServerThatReadsLateIsWaitedFor(t *testing.T) {
	t.Parallel()
	const size = 20 << 20
	server := newRawServer(t, func(int, net.Conn) bool { time.Sleep(3 * ackSoon); return true })
	if answer, resent, err := server.rig(t).impatient().post(t.Context(), strings.Repeat("x", size)); answer != fmt.Sprint(size) || resent > 0 || err != nil {
		t.Errorf("got %q, sent again %d times, %v", answer, resent, err)
	}
}

// A connection that dies under its first request is no different. Keep-alives of the kernel take
// three seconds for it.
func TestDeadNewConnection(t *testing.T) {
	perigeetest.Slow(t)
	t.Parallel()
	cases := map[string]func() error{}
	for _, protocol := range protocols {
		asked, calls := make(chan struct{}), atomic.Int32{}
		r := newHealthRig(t, protocol, func(w http.ResponseWriter, req *http.Request) {
			if calls.Add(1) == 1 {
				_, _ = io.Copy(io.Discard, req.Body) // net/http watches a connection only then
				close(asked)
				<-req.Context().Done()
				return
			}
			echo(w, req)
		}).impatient()
		cases[protocol] = func() error {
			go func() { <-asked; r.relay.Drop() }()
			if answer, resent, err := r.post(t.Context(), "x"); answer == "" || resent != 1 || err != nil {
				return fmt.Errorf("got %q, sent again %d times, %v", answer, resent, err)
			}
			return nil
		}
	}
	probe := newHealthRig(t, "HTTP/1.1", echo)
	if _, _, err := probe.post(t.Context(), "x"); err != nil || !probe.relay.Drop() {
		t.Skip("packets cannot be dropped here", err)
	}
	together(t, cases)
}

// Connections that died at once while they were idle cost no more than one request its time.
func TestManyDeadConnections(t *testing.T) {
	t.Parallel()
	cases := map[string]func() error{}
	for _, protocol := range protocols {
		const calls = 10
		var all sync.WaitGroup
		all.Add(calls)
		r := newHealthRig(t, protocol, func(w http.ResponseWriter, req *http.Request) {
			if req.URL.Path == "/together" {
				all.Done()
				all.Wait()
			}
			echo(w, req)
		}).impatient()
		cases[protocol] = func() error {
			warm := *r
			warm.url += "/together"
			var done sync.WaitGroup
			for range calls {
				done.Go(func() {
					if _, _, err := warm.post(t.Context(), "x"); err != nil {
						t.Error(err)
					}
				})
			}
			await.Return(t, done.Wait, "the calls that open connections")
			r.relay.Drop()
			for i := range 2 * calls {
				if _, resent, err := r.post(t.Context(), "x"); err != nil || resent > 0 && i > 0 {
					return fmt.Errorf("call %d: sent again %d times, %v", i, resent, err)
				}
			}
			return nil
		}
	}
	together(t, cases)
}

// A provider that is silent for longer than a dead connection would be waited for is not cut off,
// neither before the head of its answer nor after it.
func TestSilentProviderIsWaitedFor(t *testing.T) {
	for _, begun := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r, _ := newPipeRig(t, func(w http.ResponseWriter, req *http.Request) {
				if begun {
					_ = http.NewResponseController(w).Flush()
				}
				time.Sleep(5 * (pingAfter + pingTimeout))
				echo(w, req)
			})
			if answer, resent, err := r.post(t.Context(), "x"); answer == "" || resent > 0 || err != nil {
				t.Errorf("begun %t: got %q, sent again %d times, %v", begun, answer, resent, err)
			}
		})
	}
}

// Real time: the keep-alives of the kernel are what is tested, and their unit is the second.
func TestSilentProviderIsWaitedForByTheKernel(t *testing.T) {
	perigeetest.Slow(t)
	t.Parallel()
	cases := map[string]func() error{}
	for _, protocol := range protocols {
		for _, begun := range []bool{false, true} {
			r := newHealthRig(t, protocol, func(w http.ResponseWriter, req *http.Request) {
				if begun {
					_ = http.NewResponseController(w).Flush()
				}
				time.Sleep(5 * time.Second)
				echo(w, req)
			}).impatient()
			cases[fmt.Sprintf("%s, begun: %t", protocol, begun)] = func() error {
				if answer, resent, err := r.post(t.Context(), "x"); answer == "" || resent > 0 || err != nil || r.relay.Accepted() != 1 {
					return fmt.Errorf("got %q, sent again %d times, %v, on %d connections", answer, resent, err, r.relay.Accepted())
				}
				return nil
			}
		}
	}
	together(t, cases)
}
