package wire

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"perigee"
	"perigee/internal/testing/perigeetest"
	"perigee/internal/testing/perigeetest/await"
)

// A proxyRig is a proxy that connects every host to one server, and remembers which hosts it was
// asked for and with which credentials.
type proxyRig struct {
	address string // host:port
	dial    func() (net.Conn, error)
	mu      sync.Mutex
	asked   []string
}

func newProxyRig(t *testing.T, to string, serve func(p *proxyRig, c net.Conn) error) *proxyRig {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxyRig{address: l.Addr().String(), dial: func() (net.Conn, error) { return net.Dial("tcp", to) }}
	p.serve(t, l, serve)
	return p
}

// serve serves a listener, which ends with the test.
func (p *proxyRig) serve(t *testing.T, l net.Listener, serve func(p *proxyRig, c net.Conn) error) {
	var open sync.WaitGroup
	open.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			open.Go(func() {
				defer func() { _ = c.Close() }()
				if err := serve(p, c); err != nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, io.EOF) {
					t.Log("proxy:", err)
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		await.Return(t, open.Wait, "the connections of the proxy")
	})
}

func (p *proxyRig) remember(who, host string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, who+" "+host)
}

func (p *proxyRig) heard() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.asked)
}

// relay copies both ways until one side ends.
func (p *proxyRig) relay(c net.Conn, from io.Reader) error {
	server, err := p.dial()
	if err != nil {
		return err
	}
	go func() { _, _ = io.Copy(server, from); _ = server.Close() }()
	_, err = io.Copy(c, server)
	_ = c.Close()
	return err
}

// connectProxy speaks HTTP CONNECT. The user mallory is refused.
func connectProxy(p *proxyRig, c net.Conn) error {
	r := bufio.NewReader(c)
	req, err := http.ReadRequest(r)
	if err != nil {
		return err
	}
	who, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(req.Header.Get("Proxy-Authorization"), "Basic "))
	p.remember(string(who), req.Method+" "+req.Host)
	if strings.HasPrefix(string(who), "mallory") {
		_, err := io.WriteString(c, "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
		return err
	}
	if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		return err
	}
	return p.relay(c, r)
}

// socksProxy speaks SOCKS5 (RFC 1928, 1929), with and without a password.
func socksProxy(p *proxyRig, c net.Conn) error {
	r := bufio.NewReader(c)
	read := func(n int) []byte {
		b := make([]byte, n)
		if _, e := io.ReadFull(r, b); e != nil {
			clear(b)
		}
		return b
	}
	greeting := read(2)
	methods, who := read(int(greeting[1])), ""
	if slices.Contains(methods, 2) {
		_, _ = c.Write([]byte{5, 2})
		read(1)
		user := string(read(int(read(1)[0])))
		who = user + ":" + string(read(int(read(1)[0])))
		_, _ = c.Write([]byte{1, 0})
	} else {
		_, _ = c.Write([]byte{5, 0})
	}
	if head := read(4); head[1] != 1 || head[3] != 3 {
		return fmt.Errorf("not a CONNECT to a name: %v", head)
	}
	host := string(read(int(read(1)[0])))
	p.remember(who, fmt.Sprintf("SOCKS %s:%d", host, binary.BigEndian.Uint16(read(2))))
	_, _ = c.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0})
	return p.relay(c, r)
}

func TestProxies(t *testing.T) {
	provider := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "hello "+r.Header.Get("Proxy-Authorization"))
	}))
	defer provider.Close()
	to := provider.Listener.Addr().String()
	for _, c := range []struct {
		scheme, user string
		serve        func(*proxyRig, net.Conn) error
		want         string
	}{
		{"http", "", connectProxy, " CONNECT example.com:443"},
		{"http", "ada:hunter22@", connectProxy, "ada:hunter22 CONNECT example.com:443"},
		{"socks5", "", socksProxy, " SOCKS example.com:443"},
		{"socks5", "ada:hunter22@", socksProxy, "ada:hunter22 SOCKS example.com:443"},
		{"socks5h", "ada:hunter22@", socksProxy, "ada:hunter22 SOCKS example.com:443"},
	} {
		proxy := newProxyRig(t, to, c.serve)
		client, transport := proxied(t, c.scheme+"://"+c.user+proxy.address, provider)
		if body, err := get(t, client, "https://example.com/"); err != nil || body != "hello " {
			t.Errorf("%s: got %q, %v", c.scheme, body, err)
		}
		// A provider on this machine is reached without it.
		if body, err := get(t, client, provider.URL); err != nil || body != "hello " {
			t.Errorf("%s: got %q from loopback, %v", c.scheme, body, err)
		}
		if heard := proxy.heard(); !slices.Equal(heard, []string{c.want}) {
			t.Errorf("%s: the proxy was asked %q, want %q", c.scheme, heard, c.want)
		}
		transport.CloseIdleConnections()
	}
}

// proxied is a client that goes through a proxy and trusts a server of the test.
func proxied(t *testing.T, address string, provider *httptest.Server) (*http.Client, *Transport) {
	t.Helper()
	transport, err := NewProxyTransport(perigee.NewSecret(address))
	if err != nil {
		t.Fatal(err)
	}
	trust(transport, provider)
	t.Cleanup(transport.CloseIdleConnections)
	return NewClient(transport), transport
}

// trust makes a transport accept the certificate of a server of the test.
func trust(transport *Transport, server *httptest.Server) {
	roots := server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	transport.Configure(func(t *http.Transport) { t.TLSClientConfig = &tls.Config{RootCAs: roots} })
}

func get(t *testing.T, client *http.Client, address string) (string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

// Whatever is wrong with a proxy, its user and password are not told.
func TestProxyErrorsHoldNoPassword(t *testing.T) {
	provider := httptest.NewTLSServer(nil)
	defer provider.Close()
	refusing := newProxyRig(t, "", connectProxy)
	dead := newProxyRig(t, "127.0.0.1:1", socksProxy)
	const unreachable, refused = "upstream studio: its proxy cannot be reached: connection refused", "upstream studio: its proxy does not connect: server error"
	for address, want := range map[string]struct {
		err    string
		public string
		never  bool // nothing was connected to
	}{
		"http://mallory:hunter22@" + refusing.address: {"the proxy at " + refusing.address + " does not connect: 407 Proxy Authentication Required", refused, false},
		"socks5://mallory:hunter22@" + dead.address:   {"", "upstream studio: connection lost", false}, // it hangs up
		"http://mallory:hunter22@127.0.0.1:1":         {"proxyconnect", unreachable, true},
		"socks5://mallory:hunter22@127.0.0.1:1":       {"127.0.0.1:1: ", unreachable, true},
	} {
		client, _ := proxied(t, address, provider)
		_, err := get(t, client, "https://example.com/")
		if err == nil || !strings.Contains(err.Error(), want.err) || NeverConnected(err) != want.never {
			t.Errorf("%s: %v", address, err)
		}
		e := TransportError(t.Context(), "studio", "url", err)
		if strings.Contains(fmt.Sprint(err, e), "hunter22") {
			t.Errorf("the password is in %v and %v", err, e)
		}
		if e.Public != want.public || want.never != strings.HasPrefix(e.PublicHint, "start the proxy") || strings.Contains(e.Hint, "proxy") != strings.Contains(want.public, "proxy") {
			t.Errorf("%s: clients get %q, the log %v", address, e.Public, e)
		}
	}
	if _, err := NewProxyTransport(perigee.NewSecret("http://a:hunter22@[x")); err == nil || strings.Contains(err.Error(), "hunter22") {
		t.Errorf("got %v", err)
	}
}

// A proxy that accepts a connection and does not finish its handshake is given up like a host that
// does not accept any.
func TestSilentProxyIsGivenUp(t *testing.T) {
	provider := httptest.NewTLSServer(nil)
	defer provider.Close()
	silent := func(p *proxyRig, c net.Conn) error { _, err := io.Copy(io.Discard, c); return err }
	halfway := func(p *proxyRig, c net.Conn) error { _, _ = c.Write([]byte{5, 0}); return silent(p, c) }
	for name, test := range map[string]struct {
		scheme string
		serve  func(*proxyRig, net.Conn) error
	}{
		"http": {"http://", silent}, "https": {"https://", silent}, "socks5": {"socks5://", silent}, "socks5 that greets": {"socks5://", halfway},
	} {
		t.Run(name, func(t *testing.T) {
			client, transport := proxied(t, test.scheme+newProxyRig(t, "", test.serve).address, provider)
			transport.Configure(func(t *http.Transport) {
				made := newConnector()
				made.handshake = 50 * time.Millisecond
				t.DialContext = made.dial
			})
			if made := newConnector(); made.handshake != connectTimeout || connectTimeout != 10*time.Second {
				t.Errorf("the time-out is %s", made.handshake)
			}
			for _, target := range []string{"https://example.com/", "http://example.com/"} {
				if target[:5] == "http:" && test.scheme[:4] == "http" {
					continue // the proxy is sent the request itself, and may take its time
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
				if err != nil {
					t.Fatal(err)
				}
				resp, err := client.Do(req)
				if err == nil {
					resp.Body.Close()
				}
				if err == nil || ctx.Err() != nil {
					t.Errorf("%s: %v", target, err)
					continue
				}
				if e := TransportError(ctx, "s", "url", err); e.Public != "upstream s cannot be reached: connection error (timed out)" || !strings.Contains(e.Message, "no handshake") {
					t.Errorf("%s: got %q and %q", target, e.Public, e.Message)
				}
			}
		})
	}
}

// The time-out of the handshake ends with it: a provider may be silent for longer behind a proxy,
// too.
func TestHandshakeTimeoutEndsWithTheHandshake(t *testing.T) {
	for name, test := range map[string]struct {
		proxy string
		serve func(p *proxyRig, c net.Conn) error
	}{"CONNECT": {"http://proxy.example", connectProxy}, "SOCKS5": {"socks5://proxy.example", socksProxy}, "none": {NoProxy, connectProxy}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near, far := perigeetest.NewPipes(), perigeetest.NewPipes()
				provider := &httptest.Server{Listener: far, TLS: &tls.Config{MaxVersion: tls.VersionTLS12}, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					time.Sleep(3 * connectTimeout)
					_, _ = io.WriteString(w, "late")
				})}}
				provider.StartTLS()
				defer provider.Close()
				proxy := &proxyRig{dial: func() (net.Conn, error) { return far.Dial(context.Background(), "", "") }}
				proxy.serve(t, near, test.serve)
				client, transport := proxied(t, test.proxy, provider)
				transport.Configure(func(t *http.Transport) {
					made := newConnector()
					if made.connect = near.Dial; test.proxy == NoProxy {
						made.connect = far.Dial
					}
					t.DialContext = made.dial
				})
				if body, err := get(t, client, "https://example.com/"); body != "late" || err != nil {
					t.Errorf("got %q, %v", body, err)
				}
				client.CloseIdleConnections()
			})
		})
	}
}

// A connection that was dialed for a request that was then sent on another one has carried nothing
// when it is used: the time-out of its handshake ends then, too.
func TestHandshakeTimeoutEndsWithAKeptConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held, late := make(chan struct{}), atomic.Int32{}
		pipes := perigeetest.NewPipes()
		provider := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/held":
				<-held
			case "/late":
				late.Add(1)
				time.Sleep(3 * connectTimeout)
			}
			_, _ = io.WriteString(w, "done")
		})}
		go func() { _ = provider.Serve(pipes) }()
		defer provider.Close()
		transport := NewTransport()
		dialing, dials := make(chan struct{}), atomic.Int32{}
		transport.Configure(func(t *http.Transport) {
			made := newConnector()
			made.connect = pipes.Dial
			t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
				if dials.Add(1) == 2 {
					<-dialing
				}
				return made.dial(ctx, network, address)
			}
		})
		client := NewClient(transport)
		defer client.CloseIdleConnections()
		ask := func(path string) {
			if body, err := get(t, client, "http://provider.example"+path); body != "done" || err != nil {
				t.Errorf("%s: got %q, %v", path, body, err)
			}
		}
		go ask("/held")
		synctest.Wait()
		go ask("/")
		synctest.Wait()
		if n := dials.Load(); n != 2 {
			t.Fatalf("%d connections were dialed", n)
		}
		close(held) // the second request gets the connection of the first
		synctest.Wait()
		close(dialing) // and the one that was dialed for it is kept
		time.Sleep(connectTimeout / 2)
		go ask("/late")
		ask("/late")
		synctest.Wait()
		if late.Load() != 2 || dials.Load() != 2 {
			t.Errorf("2 requests were sent %d times, on %d connections", late.Load(), dials.Load())
		}
	})
}

// What a proxy says about its refusal is shortened and escaped, and the credentials in it are
// removed.
func TestProxyPhrase(t *testing.T) {
	provider := httptest.NewTLSServer(nil)
	defer provider.Close()
	encoded := base64.StdEncoding.EncodeToString([]byte("ada:hunter22"))
	for phrase, want := range map[string]string{
		"Proxy Authentication Required": `407 Proxy Authentication Required$`,
		"":                              `407 Proxy Authentication Required$`,
		"No \x1b[31mentry\u202e":        `407 Proxy Authentication Required ("No \x1b[31mentry\u202e")$`,
		"not hunter22 or " + encoded:    `407 Proxy Authentication Required ("not [redacted] or [redacted]")$`,
		strings.Repeat("long ", 1000):   `407 Proxy Authentication Required ("` + strings.Repeat("long ", 19) + `lo…")$`,
	} {
		proxy := newProxyRig(t, "", func(_ *proxyRig, c net.Conn) error {
			if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
				return err
			}
			_, err := io.WriteString(c, "HTTP/1.1 407 "+phrase+"\r\nContent-Length: 0\r\n\r\n")
			return err
		})
		client, _ := proxied(t, "http://ada:hunter22@"+proxy.address, provider)
		_, err := get(t, client, "https://example.com/")
		if err == nil || !strings.HasSuffix(err.Error()+"$", "does not connect: "+want) {
			t.Errorf("%q: got %v", perigee.Clip(phrase, 40), err)
		}
	}
}

// The variables of the environment are read once in a process, so this one has a process of its
// own.
func TestProxyOfTheEnvironment(t *testing.T) {
	const child = "PERIGEE_TEST_PROXY_OF"
	if address, ok := os.LookupEnv(child); ok {
		transport, err := NewProxyTransport(perigee.NewSecret(address))
		if err != nil {
			t.Fatal(err)
		}
		for _, host := range []string{"https://example.com", "https://no.example.com", "https://127.0.0.1"} {
			through := (*url.URL)(nil)
			if proxy := transport.current.Load().Proxy; proxy != nil {
				through, _ = proxy(httptest.NewRequest(http.MethodGet, host, nil))
			}
			fmt.Printf("%s through %q\n", host, urlText(through))
		}
		return
	}
	const other = "http://other.example.com"
	for address, want := range map[string][3]string{
		"":      {"http://proxy.test:1", "", ""},
		NoProxy: {"", "", ""},
		other:   {other, other, ""},
	} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestProxyOfTheEnvironment$", "-test.v")
		cmd.Env = []string{child + "=" + address, "HTTPS_PROXY=http://proxy.test:1", "NO_PROXY=no.example.com"}
		said, err := cmd.CombinedOutput()
		for i, host := range []string{"https://example.com", "https://no.example.com", "https://127.0.0.1"} {
			if line := fmt.Sprintf("%s through %q\n", host, want[i]); err != nil || !strings.Contains(string(said), line) {
				t.Errorf("proxy %q: %v, no %s in %s", address, err, line, said)
			}
		}
	}
}

func TestLoopbackNeedsNoProxy(t *testing.T) {
	transport, err := NewProxyTransport(perigee.NewSecret("http://proxy.example.com"))
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]string{
		"https://example.com": "http://proxy.example.com", "http://localhost:1": "", "http://127.8.0.1": "", "http://[::1]:9": "", "http://localhost.:2": "", "https://10.0.0.1": "http://proxy.example.com",
	} {
		req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, host, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := transport.current.Load().Proxy(req)
		if text := urlText(got); err != nil || text != want {
			t.Errorf("%s goes through %q, %v; want %q", host, text, err, want)
		}
	}
}

func urlText(u *url.URL) string {
	if u == nil {
		return ""
	}
	return u.String()
}
