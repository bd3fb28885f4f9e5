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

	"perigee/internal/hostglob"
	"perigee/internal/mitm/authority"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for something real.
const patience = time.Minute

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

// A rig is a proxy that intercepts *.example.org, and servers behind it. Every connection that the proxy makes goes through another
// proxy, which connects to the server of a name whatever the port is.
type rig struct {
	t       testing.TB
	ca      *testCA
	auth    *authority.Authority
	proxy   *Proxy
	address string // of the explicit listener
	direct  string // of the transparent listener
	log     *logBuffer
	tunnels chan Tunnel

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
	hosts, err := hostglob.Parse([]string{"*.example.org"})
	if err != nil {
		t.Fatal(err)
	}
	auth, _, err := authority.Open(t.TempDir(), hosts, nil)
	if err != nil {
		t.Fatal(err)
	}
	g := &rig{t: t, ca: newTestCA(t), auth: auth, log: &logBuffer{}, tunnels: make(chan Tunnel, 100), servers: map[string]string{}}
	logger := slog.New(slog.NewTextHandler(g.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	behind := g.startConnector()
	transport := TransportOptions{CAFile: g.ca.file, Proxy: behind}
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

func (g *rig) serve(serve func(net.Listener) error) string {
	g.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		g.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := serve(l); err != http.ErrServerClosed {
			g.t.Errorf("served: %v", err)
		}
	}()
	g.t.Cleanup(func() { <-done })
	return l.Addr().String()
}

// startConnector starts the proxy behind the proxy.
func (g *rig) startConnector() *url.URL {
	g.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		g.t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			newPlainForwarder(Options{Dial: g.connect}).ServeHTTP(w, r)
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
		t := &tunnel{idle: patience}
		done := make(chan struct{})
		go func() { defer close(done); t.copy(c, client, nil) }()
		t.copy(client, c, nil)
		<-done
		_ = c.Close()
		_ = client.Close()
	})}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(l) }()
	g.t.Cleanup(func() { _ = server.Close(); <-done })
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
	return (&net.Dialer{}).DialContext(ctx, network, to)
}

// server starts a server for names over TLS. It offers HTTP/2 if http2 is set.
func (g *rig) server(http2 bool, handler http.HandlerFunc, names ...string) *httptest.Server {
	g.t.Helper()
	return g.serverUntil(time.Now().Add(time.Hour), http2, handler, names...)
}

func (g *rig) serverUntil(until time.Time, http2 bool, handler http.HandlerFunc, names ...string) *httptest.Server {
	g.t.Helper()
	server := httptest.NewUnstartedServer(handler)
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
		ExpectContinueTimeout:  patience,
		Protocols:              &http.Protocols{},
	}
	transport.Protocols.SetHTTP1(!http2)
	transport.Protocols.SetHTTP2(http2)
	if transparent {
		transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, g.direct)
		}
	} else {
		transport.Proxy = http.ProxyURL(&url.URL{Scheme: "http", Host: g.address})
	}
	g.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: patience}
}

// until waits for a condition.
func until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not in time: " + what)
		}
	}
}

// logged waits for a line in the log of the proxy.
func (g *rig) logged(text string) {
	g.t.Helper()
	until(g.t, "log "+text, func() bool { return strings.Contains(g.log.String(), text) })
}
