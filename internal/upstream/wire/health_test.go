package wire

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"perigee/internal/perigeetest"
)

// minute is how long a test waits for something that happens.
const minute = time.Minute

// A healthRig is a server that names the protocol it was asked with, behind a relay whose connections can die.
type healthRig struct {
	server *httptest.Server
	relay  *perigeetest.Relay
	client *http.Client
	url    string
}

var protocols = []string{"HTTP/1.1", "HTTP/1.1 over TLS", "HTTP/2.0"}

func newHealthRig(t *testing.T, protocol string, handler http.HandlerFunc) *healthRig {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	transport := NewTransport()
	scheme := "http://"
	if server.EnableHTTP2 = protocol == "HTTP/2.0"; protocol == "HTTP/1.1" {
		server.Start()
	} else {
		scheme = "https://"
		server.StartTLS()
		trust(transport, server)
	}
	t.Cleanup(server.Close)
	r := &healthRig{server: server, relay: perigeetest.NewRelay(t, server.Listener.Addr().String()), client: NewClient(transport)}
	r.url = scheme + r.relay.Address
	t.Cleanup(r.client.CloseIdleConnections)
	return r
}

// post sends a body and returns what the server says to it, and how often the request was sent again.
func (r *healthRig) post(ctx context.Context, body string) (answer string, resent int, err error) {
	ctx, cancel := context.WithTimeout(OnResend(ctx, func(error) { resent++ }), minute)
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
			began := time.Now()
			if err := run(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			t.Logf("%s: %.1f s", name, time.Since(began).Seconds())
		})
	}
	all.Wait()
}

// A request on a connection that has died is answered on another, and so are all later ones.
func TestDeadConnection(t *testing.T) {
	perigeetest.Slow(t)
	t.Parallel()
	stall := func(r *perigeetest.Relay) bool { r.Stall(); return true }
	cases := map[string]func() error{}
	for _, test := range []struct {
		protocol, death string
		kill            func(*perigeetest.Relay) bool
	}{
		{"HTTP/2.0", "stalled", stall}, // HTTP/1.1 cannot tell that from a provider that thinks
		{"HTTP/2.0", "dropped", (*perigeetest.Relay).Drop},
		{"HTTP/1.1 over TLS", "dropped", (*perigeetest.Relay).Drop},
		{"HTTP/1.1", "dropped", (*perigeetest.Relay).Drop},
	} {
		for _, size := range []int{10, 300 << 10} {
			r := newHealthRig(t, test.protocol, echo)
			cases[fmt.Sprintf("%s %s %d", test.protocol, test.death, size)] = func() error {
				body, want := strings.Repeat("x", size), fmt.Sprintf("%.8s %d", test.protocol, size)
				for i := range 24 {
					wantResent := 0
					if i == 3 {
						if !test.kill(r.relay) {
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

// A server that reads a body late, so that the kernel cannot send it, is not taken for dead.
func TestServerThatReadsLateIsWaitedFor(t *testing.T) {
	perigeetest.Slow(t)
	t.Parallel()
	const size = 20 << 20
	server := newRawServer(t, func(int, net.Conn) bool { time.Sleep(ackTimeout + 3*time.Second); return true })
	if answer, resent, err := server.rig(t).post(t.Context(), strings.Repeat("x", size)); answer != fmt.Sprint(size) || resent > 0 || err != nil {
		t.Errorf("got %q, sent again %d times, %v", answer, resent, err)
	}
}

// A connection that dies under its first request is no different.
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
		})
		cases[protocol] = func() error {
			go func() { <-asked; r.relay.Drop() }()
			if answer, resent, err := r.post(t.Context(), "x"); answer == "" || resent != 1 || err != nil {
				return fmt.Errorf("got %q, sent again %d times, %v", answer, resent, err)
			}
			return nil
		}
	}
	if runtime.GOOS != "linux" {
		t.Skip("packets can be dropped on Linux only")
	}
	together(t, cases)
}

// Connections that died at once while they were idle cost no more than one request its time.
func TestManyDeadConnections(t *testing.T) {
	perigeetest.Slow(t)
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
		})
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
			done.Wait()
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

// A provider that is silent for longer than a dead connection would be waited for is not cut off, neither before the head of its
// answer nor after it.
func TestSilentProviderIsWaitedFor(t *testing.T) {
	perigeetest.Slow(t)
	t.Parallel()
	cases := map[string]func() error{}
	for _, protocol := range protocols {
		for _, begun := range []bool{false, true} {
			r := newHealthRig(t, protocol, func(w http.ResponseWriter, req *http.Request) {
				if begun {
					_ = http.NewResponseController(w).Flush()
				}
				time.Sleep(pingAfter + pingTimeout + ackTimeout/2)
				echo(w, req)
			})
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
