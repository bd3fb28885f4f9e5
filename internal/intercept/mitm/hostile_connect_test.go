package mitm_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"perigee/internal/intercept/mitm"
	"perigee/internal/testing/perigeetest/await"
)

// TestConnectRequests sends CONNECT requests that are wrong, and requests for the proxy itself.
func TestConnectRequests(t *testing.T) {
	t.Parallel()
	r := newHostileRig(t)
	target := r.server(func(http.ResponseWriter, *http.Request) { t.Error("the server was reached") })
	_, port, _ := net.SplitHostPort(r.address)
	connect := func(to string) string { return "CONNECT " + to + " HTTP/1.1\r\nHost: " + to + "\r\n\r\n" }
	own := "Host: " + r.address + "\r\n\r\n"
	for request, want := range map[string]string{
		connect(r.address):                           "403",
		connect("localhost:" + port):                 "403",
		connect("[::ffff:127.0.0.1]:" + port):        "403",
		connect("localhost"):                         "400",
		connect(":443"):                              "400",
		connect("localhost:"):                        "400",
		connect("localhost:0"):                       "400",
		connect("localhost:65536"):                   "400",
		connect("localhost:https"):                   "4",
		connect("localhost:443x"):                    "400",
		connect("localhost:-1"):                      "400",
		connect("/"):                                 "400",
		connect("http://localhost:443"):              "400",
		connect("user@localhost:443"):                "400",
		connect("[::1:443"):                          "400",
		connect("local\x00host:443"):                 "400",
		connect("localhost:443/../x"):                "400",
		connect(strings.Repeat("x", 8<<10) + ":443"): "400",
		connect("127.0.0.1:1"):                       "502",
		connect("nowhere.tunnelled.invalid:443"):     "502",

		"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n":                                   "403",
		"GET / HTTP/1.1\r\nHost: evil.example:" + port + "\r\n\r\n":                      "403",
		"POST / HTTP/1.1\r\nOrigin: https://evil.example\r\nContent-Length: 0\r\n" + own: "403",
		"GET / HTTP/1.1\r\nOrigin: null\r\n" + own:                                       "403",
		"GET / HTTP/1.1\r\nSec-Fetch-Site: cross-site\r\n" + own:                         "4",
		"GET / HTTP/1.1\r\n" + own:                                                       "4",
		"OPTIONS * HTTP/1.1\r\n" + own:                                                   "4",
		"GET http://" + r.address + "/ HTTP/1.1\r\n" + own:                               "4",
		"GET http://localhost:" + port + "/ HTTP/1.1\r\n" + own:                          "4",
		"GET https://" + target + "/ HTTP/1.1\r\nHost: " + target + "\r\n\r\n":           "4",
		"GET ftp://" + target + "/ HTTP/1.1\r\nHost: " + target + "\r\n\r\n":             "4",
		"GET http:///x HTTP/1.1\r\nHost: evil.example\r\n\r\n":                           "4",
		"GET x HTTP/1.1\r\n" + own:                                                       "4",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n":                                               "4",
		"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00":                                       "4",
		"\x05\x01\x00": "4",
		"CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\nContent-Length: x\r\n\r\n": "400",
	} {
		conn := r.dial()
		_, _ = io.WriteString(conn, request)
		if !strings.Contains(request, "\r\n\r\n") {
			_ = conn.CloseWrite()
		}
		said := readHead(t, conn)
		status, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(said, "HTTP/1.0 "), "HTTP/1.1 "), " ")
		if !strings.HasPrefix(status, want) {
			t.Errorf("%.90q: want %s, got %.200q", request, want, said)
		}
	}
	r.works(target)
}

// TestTunnels passes bytes of hosts that are not intercepted, whatever they are: a server that
// speaks first, as SMTP does on port 25, and clients that end their side first.
func TestTunnels(t *testing.T) {
	t.Parallel()
	ended := make(chan mitm.Tunnel, 9)
	var mail string
	r := newHostileRig(t, func(o *hostileOptions) {
		o.Tunnelled = func(tunnel mitm.Tunnel) { ended <- tunnel }
		o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			if address == "mail.example:25" {
				address = mail
			}
			return new(net.Dialer).DialContext(ctx, network, address)
		}
	})
	mail = r.rawServer(nil, func(conn net.Conn) {
		_, _ = io.WriteString(conn, "220 hello\r\n\r\n")
		said, _ := io.ReadAll(conn)
		_, _ = fmt.Fprintf(conn, "221 got %q", said)
	})
	conn := r.connect("mail.example:25")
	if banner := readHead(t, conn); banner != "220 hello\r\n\r\n" {
		t.Errorf("%q", banner)
	}
	_, _ = io.WriteString(conn, "\x16\x03\x01QUIT")
	_ = conn.CloseWrite()
	if rest, err := io.ReadAll(conn); string(rest) != `221 got "\x16\x03\x01QUIT"` || err != nil {
		t.Errorf("%q, %v", rest, err)
	}
	if tunnel := await.Receive(t, ended, "the end of the tunnel"); tunnel.Address != "mail.example:25" || tunnel.Sent != 7 || tunnel.Received != 13+26 || tunnel.Err != nil {
		t.Errorf("%+v", tunnel)
	}
}

// TestTunnelCut has one side of a tunnel reset its connection. The other side sees a reset or an
// end, and nothing stays open.
func TestTunnelCut(t *testing.T) {
	t.Parallel()
	r := newHostileRig(t)
	begun, left := make(chan net.Conn, 1), make(chan struct{}, 1)
	server := r.rawServer(nil, func(conn net.Conn) {
		begun <- conn
		_, _ = io.Copy(io.Discard, conn)
		left <- struct{}{}
	})
	server = strings.Replace(server, "localhost", "127.0.0.1", 1)
	conn := r.connect(server)
	await.Receive(t, begun, "the connection to the server")
	reset(conn)
	await.Receive(t, left, "the end for the server")
	conn = r.connect(server)
	reset(await.Receive(t, begun, "the second connection to the server"))
	await.Receive(t, left, "the end of the script")
	if _, err := io.Copy(io.Discard, conn); err != nil && strings.Contains(err.Error(), "timeout") {
		t.Error("the client was not told")
	}
}

// TestIdleTunnel ends a tunnel on which nothing moves, and keeps one on which bytes move in one
// direction only.
func TestIdleTunnel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHostileRig(t, overPipes)
		var last time.Time
		server := strings.Replace(r.rawServer(nil, func(conn net.Conn) {
			for range 30 {
				time.Sleep(4 * time.Minute)
				if _, err := io.WriteString(conn, "x"); err != nil {
					return
				}
			}
			last = time.Now()
			_, _ = io.Copy(io.Discard, conn)
		}), "localhost", "127.0.0.1", 1)
		conn := r.connect(server)
		if got, err := io.ReadAll(conn); len(got) != 30 || err != nil {
			t.Errorf("%d of 30 bytes, then %v", len(got), err)
		}
		if idle := time.Since(last); idle < 5*time.Minute || idle > 10*time.Minute {
			t.Errorf("ended after %v", idle)
		}
	})
}

// TestNoTLSInATunnel has clients that do not speak TLS to an intercepted host, or not to its end.
// They are closed in time.
func TestNoTLSInATunnel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHostileRig(t, overPipes)
		target := r.server(func(http.ResponseWriter, *http.Request) { t.Error("the server was reached") })
		testNoTLS(t, func() net.Conn { return r.connect(target) })
		r.works(target)
	})
}

// testNoTLS opens connections, in a bubble, that never become TLS. They are closed when the time
// for heads is over.
func testNoTLS(t *testing.T, open func() net.Conn) {
	began := time.Now()
	var running sync.WaitGroup
	for _, text := range noTLS(t) {
		conn := open()
		running.Go(func() {
			_, _ = io.WriteString(conn, text)
			_, _ = io.Copy(io.Discard, conn)
		})
	}
	running.Wait()
	if took := time.Since(began); took > 11*time.Second {
		t.Errorf("closed after %v", took)
	}
}

// noTLS are beginnings of connections that never become TLS.
func noTLS(t *testing.T) map[string]string {
	hello := clientHello(t, "localhost")
	return map[string]string{
		"plain HTTP":              "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"nothing":                 "",
		"one byte":                "\x16",
		"half a hello":            hello[:len(hello)/2],
		"a hello and no more":     hello,
		"a record of 64 KB":       "\x16\x03\x01\xff\xff" + strings.Repeat("\x00", 1<<16),
		"a hello of 16 MB":        "\x16\x03\x01\x40\x00\x01\xff\xff\xff" + strings.Repeat("\x00", 1<<14-4),
		"an alert":                "\x15\x03\x01\x00\x02\x02\x28",
		"noise":                   strings.Repeat("\x16\x03\x01\x00\x01\x01", 100),
		"records of one byte":     splitRecords(hello)[:300],
		"SSH":                     "SSH-2.0-OpenSSH_9.2\r\n",
		"HTTP/2 without TLS":      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
		"a hello with NUL in SNI": strings.Replace(hello, "localhost", "local\x00ost", 1),
		"a hello with SNI ../..":  strings.Replace(hello, "localhost", "../../etc", 1),
	}
}

// TestRedirectedClients has the same clients come without CONNECT, as if the system had redirected
// them. Those that name a server that is not intercepted reach it with every byte that they have
// sent, in whatever pieces.
func TestRedirectedClients(t *testing.T) {
	synctest.Test(t, testRedirectedClients)
}

// testRedirectedClients runs in a bubble.
func testRedirectedClients(t *testing.T) {
	dialled := make(chan string, 99)
	var server string
	r := newHostileRig(t, overPipes, func(o *hostileOptions) {
		o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			dialled <- address
			if address != "tunnelled.example:443" {
				return nil, errors.New("no such server")
			}
			return o.pipes.Dial(ctx, network, server)
		}
	})
	server = r.rawServer(nil, func(conn net.Conn) { _, _ = io.Copy(conn, conn) })
	redirected := r.serveTransparent()
	open := func() net.Conn {
		conn, err := r.dialTo(t.Context(), "tcp4", redirected)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	testNoTLS(t, open)
	for len(dialled) > 0 { // of the hello with a name that is none
		if address := <-dialled; strings.HasPrefix(address, "127.") || strings.HasPrefix(address, "localhost") {
			t.Errorf("the proxy has dialled %q", address)
		}
	}
	hello := clientHello(t, "tunnelled.example")
	for name, text := range map[string]string{"one record": hello, "records of one byte": splitRecords(hello)} {
		conn := open()
		go func() {
			for i := range len(text) {
				_, _ = io.WriteString(conn, text[i:i+1])
			}
		}()
		got := make([]byte, len(text))
		if _, err := io.ReadFull(conn, got); err != nil || string(got) != text {
			t.Errorf("%s: %d of %d bytes came back, %v", name, len(got), len(text), err)
		}
		_ = conn.Close()
	}
	secure := tls.Client(open(), &tls.Config{RootCAs: r.roots, ServerName: "nowhere.invalid", NextProtos: []string{"http/1.1"}})
	_, _ = io.WriteString(secure, "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n")
	if head := readHead(t, secure); !strings.HasPrefix(head, "HTTP/1.1 502 ") {
		t.Error(head)
	}
	_ = secure.Close()
}

// clientHello returns the first message of a TLS client.
func clientHello(t *testing.T, name string) string {
	t.Helper()
	client, server := net.Pipe()
	go func() {
		_ = tls.Client(client, &tls.Config{ServerName: name}).Handshake()
		_ = client.Close()
	}()
	defer server.Close()
	buffer := make([]byte, 1<<14)
	n, err := server.Read(buffer)
	if err != nil {
		t.Fatal(err)
	}
	return string(buffer[:n])
}

// splitRecords puts each byte of a TLS record into a record of its own.
func splitRecords(record string) string {
	var b strings.Builder
	for i := 5; i < len(record); i++ {
		b.WriteString("\x16\x03\x01\x00\x01" + record[i:i+1])
	}
	return b.String()
}

// TestSNI has clients name no host, or another one than they have connected to. A certificate of
// the proxy is for the tunnel's host only; where it has none, the client gets the server's own or
// none at all.
func TestSNI(t *testing.T) {
	t.Parallel()
	r := newHostileRig(t)
	target := r.server(func(http.ResponseWriter, *http.Request) {})
	for _, name := range []string{"", "other.example", "evil.localhost", "LOCALHOST", "localhost.", "127.0.0.1", strings.Repeat("x", 250)} {
		conn := tls.Client(r.connect(target), &tls.Config{ServerName: name, InsecureSkipVerify: true}) //nolint: what is sent is checked below
		if err := conn.Handshake(); err == nil {
			leaf := conn.ConnectionState().PeerCertificates[0]
			own := leaf.CheckSignatureFrom(serverCA().cert) == nil
			if _, err := leaf.Verify(x509.VerifyOptions{Roots: r.roots, DNSName: "localhost"}); err != nil && !own {
				t.Errorf("%q: a certificate for %q: %v", name, leaf.DNSNames, err)
			}
		} else if strings.EqualFold(strings.TrimSuffix(name, "."), "localhost") || strings.Contains(err.Error(), "timeout") {
			t.Errorf("%q: %v", name, err)
		}
		_ = conn.Close()
	}
	r.works(target)
}

// TestHandshakeLeft has clients leave in the middle of the handshake, or refuse the certificate.
func TestHandshakeLeft(t *testing.T) {
	t.Parallel()
	r := newHostileRig(t)
	target := r.server(func(http.ResponseWriter, *http.Request) { t.Error("the server was reached") })
	conn := tls.Client(r.connect(target), &tls.Config{ServerName: "localhost"}) // trusts no CA of ours
	if err := conn.Handshake(); err == nil {
		t.Error("the certificate is trusted")
	}
	_ = conn.Close()
	raw := r.connect(target)
	_, _ = io.WriteString(raw, clientHello(t, "localhost"))
	_, _ = io.ReadFull(raw, make([]byte, 64))
	reset(raw)
	old := tls.Client(r.connect(target), &tls.Config{ServerName: "localhost", RootCAs: r.roots, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11})
	if err := old.Handshake(); err == nil {
		t.Error("TLS 1.1 is spoken")
	}
	odd := tls.Client(r.connect(target), &tls.Config{ServerName: "localhost", RootCAs: r.roots, NextProtos: []string{"spdy/3"}})
	if err := odd.Handshake(); err != nil && strings.Contains(err.Error(), "timeout") {
		t.Error(err)
	}
	_ = odd.Close()
	r.works(target)
	await.Until(t, "connections are closed", func() bool { return r.listener.counts.open.Load() <= 1 }) // that of works may be kept
}

// TestUntrustedServers are never spoken to: the client gets 502 with the reason.
func TestUntrustedServers(t *testing.T) {
	t.Parallel()
	stranger, err := newTestCA("stranger")
	if err != nil {
		t.Fatal(err)
	}
	self := serverCA().sign(t, "localhost", time.Now().Add(time.Hour))
	self.Certificate[0] = stranger.cert.Raw
	self.PrivateKey = stranger.key
	for name, cert := range map[string]tls.Certificate{
		"expired":     serverCA().sign(t, "localhost", time.Now().Add(-time.Hour)),
		"wrong host":  serverCA().sign(t, "other.example", time.Now().Add(time.Hour)),
		"unknown CA":  stranger.sign(t, "localhost", time.Now().Add(time.Hour)),
		"self-signed": self,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			both(t, func(t *testing.T, protocol string) {
				r := newHostileRig(t)
				var reached atomic.Bool
				target := r.serverWith(cert, func(http.ResponseWriter, *http.Request) { reached.Store(true) })
				resp, err := r.client(protocol).Get("https://" + target + "/")
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				text, _ := io.ReadAll(resp.Body)
				if resp.StatusCode != http.StatusBadGateway || !strings.Contains(string(text), "certificate") || !strings.Contains(string(text), "localhost") {
					t.Errorf("status %d: %s", resp.StatusCode, text)
				}
				if reached.Load() {
					t.Error("the server was reached")
				}
			})
		})
	}
}

// TestServersThatAreNotThere are answered for by the proxy, in time. HTTP/1.1 and HTTP/2 have a
// bubble each.
func TestServersThatAreNotThere(t *testing.T) {
	bothInBubbles(t, func(t *testing.T, protocol string) {
		r := newHostileRig(t, overPipes, func(o *hostileOptions) { o.forward.Silence = 5 * time.Second })
		for name, target := range map[string]string{
			"refused":      "localhost:1",
			"unknown name": "nowhere.invalid:443",
			"no TLS":       r.rawServer(nil, answers(hostileOK, nil)),
			"silent":       r.rawServer(nil, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }),
			"closes":       r.rawServer(nil, func(net.Conn) {}),
			"a head without end": r.rawServer([]string{"http/1.1"}, func(conn net.Conn) {
				_, err := http.ReadRequest(bufio.NewReader(conn))
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nX: ")
				for ; err == nil; time.Sleep(20 * time.Millisecond) {
					_, err = io.WriteString(conn, "x")
				}
			}),
			"never answers": r.rawServer([]string{"h2", "http/1.1"}, func(conn net.Conn) {
				_, _ = io.Copy(io.Discard, conn)
			}),
		} {
			began := time.Now()
			resp, err := r.client(protocol).Get("https://" + target + "/")
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			host, _, _ := net.SplitHostPort(target)
			if resp.StatusCode != http.StatusBadGateway && resp.StatusCode != http.StatusGatewayTimeout || !strings.Contains(string(text), host) {
				t.Errorf("%s: status %d: %s", name, resp.StatusCode, text)
			}
			if took := time.Since(began); took > 6*time.Second {
				t.Errorf("%s: answered after %v", name, took)
			}
		}
	})
}

// TestAbsoluteForm sends requests without TLS. The URL names the server; the Host header does not
// count.
func TestAbsoluteForm(t *testing.T) {
	t.Parallel()
	r := newHostileRig(t)
	seen := make(chan string, 9)
	target := r.rawServer(nil, answers(hostileOK, seen))
	for _, host := range []string{target, strings.Replace(target, "localhost", "127.0.0.1", 1)} { // intercepted, and not
		conn := r.dial()
		_, _ = fmt.Fprintf(conn, "GET http://%s/a%%2Fb//?x=%%zz HTTP/1.1\r\nHost: evil.example\r\nProxy-Authorization: Basic canary\r\nProxy-Connection: keep-alive\r\n\r\n", host)
		if head := readHead(t, conn); !strings.HasPrefix(head, "HTTP/1.1 200 ") {
			t.Errorf("%s: %s", host, head)
			continue
		}
		got := await.Receive(t, seen, "the request")
		if !strings.HasPrefix(got, "GET /a%2Fb//?x=%zz HTTP/1.1\r\n") || !strings.Contains(got, "\r\nHost: "+host+"\r\n") || strings.Contains(got, "Proxy-") {
			t.Errorf("the server got %q", got)
		}
	}
	conn := r.dial()
	_, _ = io.WriteString(conn, "GET http://localhost:1/ HTTP/1.1\r\nHost: localhost:1\r\n\r\n")
	if head := readHead(t, conn); !strings.HasPrefix(head, "HTTP/1.1 502 ") {
		t.Error(head)
	}
}
