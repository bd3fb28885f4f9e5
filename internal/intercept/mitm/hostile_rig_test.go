package mitm_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"perigee/internal/intercept/authority"
	"perigee/internal/intercept/mitm"
	"perigee/internal/lib/netguard"
	"perigee/internal/testing/perigeetest/await"
)

// cheap makes handshakes take half the time.
var cheap = []tls.CurveID{tls.X25519}

// A hostileRig is a proxy that intercepts localhost and nowhere.invalid, between peers that a test
// writes byte by byte. The other hosts are tunnelled. At the end of a test no connection may be
// left open, and the log may have one line per connection at most.
type hostileRig struct {
	t        *testing.T
	proxy    *mitm.Proxy
	address  string // of the proxy
	roots    *x509.CertPool
	log      *hostileLog
	listener *hostileListener
	stopped  atomic.Bool
	pipes    *mitm.Pipes // nil means TCP
	scripts  []func()    // each waits for the end of the scripts of one server

	forwarder interface{ CloseIdleConnections() }
}

// hostileOptions are those of the proxy and of its forwarder.
type hostileOptions struct {
	mitm.Options
	forward mitm.ForwarderOptions
	pipes   *mitm.Pipes
}

// linger runs in a bubble, after everything is closed: a server of net/http keeps a connection for
// half a second if it has not read the whole request, and a bubble must not end before its
// goroutines.
func linger() { time.Sleep(time.Second) }

// overPipes has all connections of a rig be pipes, so that it lives in the time of a synctest
// bubble.
func overPipes(o *hostileOptions) { o.pipes = mitm.NewPipes() }

func newHostileRig(t *testing.T, changes ...func(*hostileOptions)) *hostileRig {
	t.Helper()
	hosts, err := netguard.ParseHosts([]string{"localhost", "nowhere.invalid"})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	ca, _, err := authority.Open(filepath.Join(dir, "ca"), hosts, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	further := filepath.Join(dir, "further.pem")
	if err := os.WriteFile(further, serverCA().pem, 0o600); err != nil {
		t.Fatal(err)
	}
	r := &hostileRig{t: t, log: &hostileLog{}, roots: x509.NewCertPool()}
	r.roots.AddCert(ca.Info().Certificate)
	logger := slog.New(slog.NewTextHandler(r.log, nil))
	options := hostileOptions{Options: mitm.Options{Authority: ca, Hosts: hosts, Logger: logger},
		forward: mitm.ForwarderOptions{Transport: mitm.TransportOptions{CAFile: further}, Logger: logger}}
	for _, change := range changes {
		change(&options)
	}
	if r.pipes = options.pipes; r.pipes != nil {
		t.Cleanup(linger)
		options.forward.Transport = r.pipes.Through(options.forward.Transport)
		if options.Dial == nil {
			options.Dial = r.pipes.Dial
		}
	}
	options.Handler = mitm.NewForwarder(options.forward)
	r.forwarder = options.Handler.(interface{ CloseIdleConnections() })
	r.proxy = mitm.New(options.Options)
	listener := r.listen()
	r.listener = &hostileListener{listener, new(connCounts)}
	r.address = listener.Addr().String()
	served := make(chan error, 1)
	go func() { served <- r.proxy.Serve(r.listener) }()
	t.Cleanup(func() {
		r.shutdown(100 * time.Millisecond)
		await.Receive(t, served, "the end of Serve")
		r.forwarder.CloseIdleConnections()
		await.Until(t, "the proxy has closed its connections", func() bool { return r.listener.counts.open.Load() == 0 })
		r.checkLog()
	})
	return r
}

// listen returns a listener on a port of this machine.
func (r *hostileRig) listen() net.Listener {
	r.t.Helper()
	if r.pipes != nil {
		return r.pipes.Listen()
	}
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	return listener
}

// dialTo opens a connection. Its shape is that of http.Transport.DialContext.
func (r *hostileRig) dialTo(ctx context.Context, network, address string) (net.Conn, error) {
	if r.pipes != nil {
		return r.pipes.Dial(ctx, network, address)
	}
	return new(net.Dialer).DialContext(ctx, network, address)
}

// limit sets a deadline for a connection of a test. In a bubble there is none: where nothing can
// happen any more, the bubble fails.
func (r *hostileRig) limit(conn net.Conn) {
	if r.pipes == nil {
		_ = conn.SetDeadline(time.Now().Add(await.Limit))
	}
}

// serveTransparent has the proxy serve another listener, for connections without CONNECT, and
// returns its address.
func (r *hostileRig) serveTransparent() string {
	r.t.Helper()
	listener := r.listen()
	served := make(chan error, 1)
	go func() {
		served <- r.proxy.ServeTransparent(&hostileListener{Listener: listener, counts: r.listener.counts})
	}()
	r.t.Cleanup(func() {
		r.shutdown(100 * time.Millisecond)
		await.Receive(r.t, served, "the end of ServeTransparent")
	})
	return listener.Addr().String()
}

// shutdown stops the proxy. Streams have some time to end.
func (r *hostileRig) shutdown(grace time.Duration) {
	if r.stopped.Swap(true) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	_ = r.proxy.Shutdown(ctx) // an error if a stream was cut
}

// checkLog expects one line per connection at most, and neither faults of our own nor secrets.
func (r *hostileRig) checkLog() {
	text := r.log.String()
	if lines, conns := strings.Count(text, "\n"), int(r.listener.counts.accepted.Load()); lines > conns {
		r.t.Errorf("%d lines in the log for %d connections:\n%.3000s", lines, conns, text)
	}
	for _, wrong := range []string{"panic", "superfluous", "goroutine ", "canary"} {
		if strings.Contains(text, wrong) {
			r.t.Errorf("the log has %q:\n%.3000s", wrong, text)
		}
	}
}

// A hostileLog keeps what the proxy logs.
type hostileLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *hostileLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *hostileLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// A hostileListener counts connections.
type hostileListener struct {
	net.Listener
	counts *connCounts
}

type connCounts struct{ accepted, open atomic.Int64 }

func (l *hostileListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.counts.accepted.Add(1)
	l.counts.open.Add(1)
	return &hostileConn{halfConn: conn.(halfConn), of: l.counts}, nil
}

// A halfConn is a connection of which one direction can be ended.
type halfConn interface {
	net.Conn
	CloseWrite() error
}

type hostileConn struct {
	halfConn
	of   *connCounts
	once sync.Once
}

func (c *hostileConn) Close() error {
	c.once.Do(func() { c.of.open.Add(-1) })
	return c.halfConn.Close()
}

// dial opens a connection to the proxy.
func (r *hostileRig) dial() halfConn {
	r.t.Helper()
	conn, err := r.dialTo(context.Background(), "tcp4", r.address)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = conn.Close() })
	r.limit(conn)
	return conn.(halfConn)
}

// reset closes a TCP connection so that its peer sees a reset.
func reset(conn net.Conn) {
	_ = conn.(*net.TCPConn).SetLinger(0)
	_ = conn.Close()
}

// connect opens a tunnel.
func (r *hostileRig) connect(target string) halfConn {
	r.t.Helper()
	conn := r.dial()
	fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", target, target)
	if head := readHead(r.t, conn); !strings.HasPrefix(head, "HTTP/1.1 200 ") {
		r.t.Fatalf("CONNECT %s: %q", target, head)
	}
	return conn
}

// readHead reads up to the first blank line, and no byte more.
func readHead(t *testing.T, conn io.Reader) string {
	t.Helper()
	var head []byte
	for b := make([]byte, 1); !bytes.HasSuffix(head, []byte("\r\n\r\n")); {
		if _, err := io.ReadFull(conn, b); err != nil {
			t.Fatalf("after %q: %v", head, err)
		}
		head = append(head, b[0])
	}
	return string(head)
}

// secure opens a tunnel to an intercepted host, with TLS inside.
func (r *hostileRig) secure(target string, protocols ...string) *tls.Conn {
	r.t.Helper()
	host, _, _ := net.SplitHostPort(target)
	conn := tls.Client(r.connect(target), &tls.Config{RootCAs: r.roots, ServerName: host, NextProtos: protocols, CurvePreferences: cheap})
	if err := conn.Handshake(); err != nil {
		r.t.Fatal(err)
	}
	return conn
}

// client returns an HTTP client that speaks HTTP/1.1 or HTTP/2 through the proxy.
func (r *hostileRig) client(protocol string) *http.Client {
	transport := &http.Transport{
		DialContext:     r.dialTo,
		Proxy:           http.ProxyURL(&url.URL{Scheme: "http", Host: r.address}),
		TLSClientConfig: &tls.Config{RootCAs: r.roots, CurvePreferences: cheap}, DisableCompression: true, Protocols: new(http.Protocols),
		MaxResponseHeaderBytes: 4 << 20,
	}
	transport.Protocols.SetHTTP1(protocol == "h1")
	transport.Protocols.SetHTTP2(protocol == "h2")
	r.t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	if r.pipes == nil {
		client.Timeout = await.Limit
	}
	return client
}

// post sends a body. Over HTTP/1.1 the answer is read whatever happens to the request: net/http
// waits for the end of the body first if the connection is closed meanwhile.
func (r *hostileRig) post(protocol, target, path string, body io.ReadCloser) (*http.Response, error) {
	r.t.Helper()
	if protocol == "h2" {
		return r.client(protocol).Post("https://"+target+path, "", body)
	}
	conn := r.secure(target, "http/1.1")
	_, _ = io.WriteString(conn, "POST "+path+" HTTP/1.1\r\nHost: "+target+"\r\nTransfer-Encoding: chunked\r\n\r\n")
	go func() {
		defer body.Close()
		buffer := make([]byte, 32<<10)
		for {
			n, err := body.Read(buffer)
			if err != nil {
				_, _ = io.WriteString(conn, "0\r\n\r\n")
				return
			}
			if _, err := fmt.Fprintf(conn, "%x\r\n%s\r\n", n, buffer[:n]); err != nil {
				return
			}
		}
	}()
	return http.ReadResponse(bufio.NewReader(conn), nil)
}

// works expects that another client is served.
func (r *hostileRig) works(target string) {
	r.t.Helper()
	resp, err := r.client("h1").Get("https://" + target + "/works")
	if err != nil {
		r.t.Errorf("the next client: %v", err)
		return
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		r.t.Errorf("the next client: status %d, %v: %s", resp.StatusCode, err, body)
	}
}

// both runs a test with HTTP/1.1 and with HTTP/2 at the same time.
func both(t *testing.T, test func(t *testing.T, protocol string)) {
	t.Helper()
	together(t, slices.Values([]string{"h1", "h2"}), test)
}

// together runs a test for each name at the same time, whatever -parallel is: such tests wait most
// of the time.
func together(t *testing.T, names iter.Seq[string], test func(t *testing.T, name string)) {
	t.Helper()
	var running sync.WaitGroup
	for name := range names {
		running.Go(func() { t.Run(name, func(t *testing.T) { test(t, name) }) })
	}
	await.Return(t, running.Wait, "the tests that run together")
}

// bothInBubbles runs a test with HTTP/1.1 and with HTTP/2, each in a synctest bubble.
func bothInBubbles(t *testing.T, test func(t *testing.T, protocol string)) {
	t.Helper()
	for _, protocol := range []string{"h1", "h2"} {
		t.Run(protocol, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, protocol) })
		})
	}
}

// server starts a server with a valid certificate for localhost, and returns its address. /works is
// answered with 200.
func (r *hostileRig) server(handler http.HandlerFunc) string {
	r.t.Helper()
	return r.serverWith(serverCA().sign(r.t, "localhost", time.Now().Add(time.Hour)), handler)
}

func (r *hostileRig) serverWith(cert tls.Certificate, handler http.HandlerFunc) string {
	r.t.Helper()
	listener := r.listen()
	handling := newCount()
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			handling.add(1)
			defer handling.add(-1)
			if req.URL.Path != "/works" {
				handler(w, req)
			}
		}),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if secure, ok := c.(*tls.Conn); ok {
				c = secure.NetConn()
			}
			return context.WithValue(ctx, serverConnKey{}, c)
		},
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}, CurvePreferences: cheap}, MaxHeaderBytes: 4 << 20,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo),
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.ServeTLS(listener, "", "")
	}()
	r.t.Cleanup(func() {
		_ = server.Close()
		await.Receive(r.t, served, "the end of a server")
		await.Return(r.t, handling.wait, "the end of the handlers")
	})
	return localhost(listener)
}

// A count can be waited for to become 0, also while it grows, which that of a sync.WaitGroup
// cannot.
type count struct {
	changed *sync.Cond
	n       int
}

func newCount() *count { return &count{changed: sync.NewCond(new(sync.Mutex))} }

func (c *count) add(n int) {
	c.changed.L.Lock()
	defer c.changed.L.Unlock()
	c.n += n
	c.changed.Broadcast()
}

// wait returns when the count is 0. Unlike that of a lock, its waiting does not stop the time of a
// bubble.
func (c *count) wait() {
	c.changed.L.Lock()
	defer c.changed.L.Unlock()
	for c.n > 0 {
		c.changed.Wait()
	}
}

// flushed writes text that must reach the client at once.
func flushed(w http.ResponseWriter, text string) {
	_, _ = io.WriteString(w, text)
	_ = http.NewResponseController(w).Flush()
}

// serverConnKey is where a request has the connection that it came on, below TLS.
type serverConnKey struct{}

// resetServerConn breaks the connection of a request, so that the proxy sees a reset.
func resetServerConn(req *http.Request) {
	reset(req.Context().Value(serverConnKey{}).(net.Conn))
}

// rawServer runs a script on each connection, and closes it afterwards. With certificate and
// protocols nil, it speaks no TLS.
func (r *hostileRig) rawServer(protocols []string, script func(net.Conn)) string {
	r.t.Helper()
	listener := r.listen()
	config := &tls.Config{NextProtos: protocols, CurvePreferences: cheap}
	if protocols != nil {
		config.Certificates = []tls.Certificate{serverCA().sign(r.t, "localhost", time.Now().Add(time.Hour))}
	}
	var mu sync.Mutex
	var open []net.Conn
	over := false
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			if open = append(open, conn); over {
				_ = conn.Close()
			}
			mu.Unlock()
			running.Go(func() {
				defer conn.Close()
				r.limit(conn)
				if protocols == nil {
					script(conn)
					return
				}
				secure := tls.Server(conn, config)
				if secure.Handshake() == nil {
					script(secure)
				}
			})
		}
	})
	ended := func() {
		_ = listener.Close()
		await.Return(r.t, running.Wait, "the end of the scripts")
	}
	r.scripts = append(r.scripts, ended)
	r.t.Cleanup(func() {
		mu.Lock()
		over = true
		for _, conn := range open {
			_ = conn.Close()
		}
		mu.Unlock()
		ended()
	})
	return localhost(listener)
}

// drain stops the proxy when its clients have been answered, and returns when the scripts of its
// servers have read all that it has sent.
func (r *hostileRig) drain() {
	r.t.Helper()
	r.shutdown(await.Limit)
	r.forwarder.CloseIdleConnections()
	for _, end := range r.scripts {
		end()
	}
}

func localhost(l net.Listener) string {
	return fmt.Sprintf("localhost:%d", l.Addr().(*net.TCPAddr).Port)
}

// hostileOK is an answer.
const hostileOK = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// answers returns a script that reads one request after the other and answers each with the same
// bytes. Each request is sent to seen as it was read, if seen is not nil.
func answers(text string, seen chan<- string) func(net.Conn) {
	return func(conn net.Conn) {
		var raw bytes.Buffer
		in := bufio.NewReader(io.TeeReader(conn, &raw))
		for {
			req, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			if _, err := io.Copy(io.Discard, req.Body); err != nil {
				raw.WriteString("<error: " + err.Error() + ">")
			}
			if seen != nil {
				seen <- raw.String()
			}
			raw.Reset()
			if strings.HasPrefix(req.RequestURI, "/works") {
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
				continue
			}
			if _, err := io.WriteString(conn, text); err != nil || !strings.Contains(text, "Content-Length: 2\r\n") {
				return
			}
		}
	}
}

// A testCA signs certificates of servers.
type testCA struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

var serverCA = sync.OnceValue(func() *testCA {
	ca, err := newTestCA("hostile servers")
	if err != nil {
		panic(err)
	}
	return ca
})

func newTestCA(name string) (*testCA, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true, NotBefore: time.Unix(0, 0),
		NotAfter: time.Unix(1<<32, 0), KeyUsage: x509.KeyUsageCertSign}
	template.Subject.CommonName = name
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &testCA{cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, err
}

// sign makes a certificate for a host.
func (ca *testCA) sign(t testing.TB, host string, until time.Time) tls.Certificate {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), NotBefore: time.Now().Add(-99 * time.Hour), NotAfter: until,
		DNSNames: []string{host}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, &key.PublicKey, ca.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
