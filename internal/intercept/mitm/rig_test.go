package mitm

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"perigee/internal/intercept/authority"
	"perigee/internal/lib/netguard"
	"perigee/internal/testing/perigeetest/await"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A testCA signs the certificates of test servers.
type testCA struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
}

func newTestCA(t testing.TB) *testCA {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ca := &testCA{key: key, file: filepath.Join(t.TempDir(), "roots.pem")}
	template := &x509.Certificate{IsCA: true, BasicConstraintsValid: true, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	if ca.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(ca.file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return ca
}

func (ca *testCA) certificate(t testing.TB, until time.Time, names ...string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{DNSNames: names, NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: until}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, &key.PublicKey, ca.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// A rig is a proxy that intercepts *.example.org, and servers behind it. Every connection that the
// proxy makes goes through another proxy, which connects to the server of a name whatever the port
// is.
type rig struct {
	t       testing.TB
	ca      *testCA
	auth    *authority.Authority
	proxy   *Proxy
	address string // of the explicit listener
	direct  string // of the transparent listener
	log     *logBuffer
	tunnels chan Tunnel
	pipes   *Pipes // nil means TCP

	mu      sync.Mutex
	servers map[string]string // addresses by name
	dialled []string          // what the proxy connected to
}

type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// newRig starts a proxy. A handler of nil forwards.
func newRig(t testing.TB, change func(*Options)) *rig {
	t.Helper()
	return newRigOver(t, nil, change)
}

// newPipeRig starts a proxy whose connections are pipes, so that it lives in the time of a synctest
// bubble.
func newPipeRig(t testing.TB, change func(*Options)) *rig {
	t.Helper()
	t.Cleanup(func() { time.Sleep(time.Second) }) // net/http keeps connections with unread requests for half a second
	return newRigOver(t, NewPipes(), change)
}

func newRigOver(t testing.TB, pipes *Pipes, change func(*Options)) *rig {
	t.Helper()
	hosts, err := netguard.ParseHosts([]string{"*.example.org"})
	if err != nil {
		t.Fatal(err)
	}
	auth, _, err := authority.Open(t.TempDir(), hosts, nil)
	if err != nil {
		t.Fatal(err)
	}
	g := &rig{t: t, pipes: pipes, ca: newTestCA(t), auth: auth, log: &logBuffer{}, tunnels: make(chan Tunnel, 100), servers: map[string]string{}}
	logger := slog.New(slog.NewTextHandler(g.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	behind := g.startConnector()
	transport := TransportOptions{CAFile: g.ca.file, Proxy: behind, direct: g.dialTo}
	dial, err := Dialer(transport)
	if err != nil {
		t.Fatal(err)
	}
	opts := Options{Authority: auth, Hosts: hosts, Dial: dial, Logger: logger, Tunnelled: func(tunnel Tunnel) { g.tunnels <- tunnel },
		Handler: NewForwarder(ForwarderOptions{Transport: transport, Logger: logger})}
	if change != nil {
		change(&opts)
	}
	g.proxy = New(opts)
	g.proxy.original = func(*net.TCPConn) (netip.AddrPort, bool) { return netip.AddrPort{}, false }
	g.address = g.serve(g.proxy.Serve)
	g.direct = g.serve(g.proxy.ServeTransparent)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		_ = g.proxy.Shutdown(ctx)
		if closer, ok := opts.Handler.(interface{ CloseIdleConnections() }); ok {
			closer.CloseIdleConnections()
		}
	})
	return g
}

// listen returns a listener on a port of this machine.
func (g *rig) listen() net.Listener {
	g.t.Helper()
	if g.pipes != nil {
		return g.pipes.Listen()
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		g.t.Fatal(err)
	}
	return l
}

// dialTo opens a connection. Its shape is that of http.Transport.DialContext.
func (g *rig) dialTo(ctx context.Context, network, address string) (net.Conn, error) {
	if g.pipes != nil {
		return g.pipes.Dial(ctx, network, address)
	}
	return new(net.Dialer).DialContext(ctx, network, address)
}

// dial opens a connection to the proxy.
func (g *rig) dial() net.Conn {
	g.t.Helper()
	c, err := g.dialTo(context.Background(), "tcp", g.address)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { _ = c.Close() })
	if g.pipes == nil { // a bubble fails by itself where nothing can happen
		_ = c.SetDeadline(time.Now().Add(await.Limit))
	}
	return c
}

func (g *rig) serve(serve func(net.Listener) error) string {
	g.t.Helper()
	l := g.listen()
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := serve(l); err != http.ErrServerClosed {
			g.t.Errorf("served: %v", err)
		}
	}()
	g.t.Cleanup(func() { await.Receive(g.t, done, "the end of a listener") })
	return l.Addr().String()
}

// startConnector starts the proxy behind the proxy.
func (g *rig) startConnector() *url.URL {
	g.t.Helper()
	l := g.listen()
	transport := newPlainTransport(g.connect)
	plain := NewForwarder(ForwarderOptions{RoundTripper: transport})
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			plain.ServeHTTP(w, r)
			return
		}
		c, err := g.connect(r.Context(), "tcp", r.RequestURI)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		client, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			_ = c.Close()
			return
		}
		_, _ = client.Write([]byte("HTTP/1.1 200 OK\r\n\r\n"))
		t := &tunnel{idle: time.Hour}
		done := make(chan struct{})
		go func() { defer close(done); t.copy(c, client, nil) }()
		t.copy(client, c, nil)
		<-done
		_ = c.Close()
		_ = client.Close()
	})}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(l) }()
	g.t.Cleanup(func() {
		transport.CloseIdleConnections()
		_ = server.Close()
		await.Receive(g.t, done, "the end of the proxy behind the proxy")
	})
	return &url.URL{Scheme: "http", Host: l.Addr().String()}
}

func (g *rig) connect(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, _ := net.SplitHostPort(address)
	g.mu.Lock()
	g.dialled = append(g.dialled, address)
	to := g.servers[host]
	g.mu.Unlock()
	if to == "" {
		return nil, &net.DNSError{Name: host, Err: "no such server in this test", IsNotFound: true}
	}
	return g.dialTo(ctx, network, to)
}

// server starts a server for names over TLS. It offers HTTP/2 if http2 is set.
func (g *rig) server(http2 bool, handler http.HandlerFunc, names ...string) *httptest.Server {
	g.t.Helper()
	return g.serverUntil(time.Now().Add(time.Hour), http2, handler, names...)
}

func (g *rig) serverUntil(until time.Time, http2 bool, handler http.HandlerFunc, names ...string) *httptest.Server {
	g.t.Helper()
	server := &httptest.Server{Listener: g.listen(), Config: &http.Server{Handler: handler}}
	server.EnableHTTP2 = http2
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	server.Config.MaxHeaderBytes = 2 << 20
	server.Config.DisableGeneralOptionsHandler = true
	server.TLS = &tls.Config{Certificates: []tls.Certificate{g.ca.certificate(g.t, until, names...)}}
	server.StartTLS()
	g.t.Cleanup(server.Close)
	g.name(server.Listener.Addr().String(), names...)
	return server
}

func (g *rig) name(address string, names ...string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, name := range names {
		g.servers[name] = address
	}
}

// client returns a client that trusts the proxy's authority and those of the test servers.
func (g *rig) client(http2, transparent bool) *http.Client {
	g.t.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(g.auth.Info().Certificate)
	roots.AddCert(g.ca.cert)
	transport := &http.Transport{
		TLSClientConfig:        &tls.Config{RootCAs: roots},
		DisableCompression:     true,
		MaxResponseHeaderBytes: 2 << 20,
		ExpectContinueTimeout:  await.Limit,
		Protocols:              &http.Protocols{},
	}
	transport.Protocols.SetHTTP1(!http2)
	transport.Protocols.SetHTTP2(http2)
	if transparent {
		transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return g.dialTo(ctx, network, g.direct)
		}
	} else {
		transport.DialContext = g.dialTo
		transport.Proxy = http.ProxyURL(&url.URL{Scheme: "http", Host: g.address})
	}
	g.t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport}
	if g.pipes == nil {
		client.Timeout = await.Limit
	}
	return client
}

// logged waits for a line in the log of the proxy.
func (g *rig) logged(text string) {
	g.t.Helper()
	await.Until(g.t, "log "+text, func() bool { return strings.Contains(g.log.String(), text) })
}
