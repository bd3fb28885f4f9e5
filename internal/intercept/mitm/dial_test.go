package mitm

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"perigee/internal/testing/perigeetest/await"
)

// startProxy serves connections with a handshake that returns what was asked for; then it says
// hello, together with the answer.
func startProxy(t *testing.T, handshake func(c net.Conn) (asked string)) (address string, asked chan string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	asked = make(chan string, 10)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.SetDeadline(time.Now().Add(await.Limit))
			asked <- handshake(c)
			_ = c.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		await.Receive(t, done, "the end of the proxy")
	})
	return l.Addr().String(), asked
}

func httpHandshake(c net.Conn) string {
	r, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return err.Error()
	}
	answer := "HTTP/1.1 200 OK\r\n\r\nhello"
	if strings.HasPrefix(r.RequestURI, "forbidden") {
		answer = "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"
	}
	_, _ = io.WriteString(c, answer)
	return fmt.Sprint(r.Method, " ", r.RequestURI, " ", r.Header.Get("Proxy-Authorization"))
}

func socksHandshake(c net.Conn) string {
	var buf [300]byte
	read := func(n int) []byte {
		_, _ = io.ReadFull(c, buf[:n])
		return buf[:n]
	}
	methods := string(read(int(read(2)[1])))
	method := methods[len(methods)-1] // with a password, if that is offered
	_, _ = c.Write([]byte{5, method})
	text := ""
	if method == 2 {
		text = string(read(int(read(2)[1]))) + ":"
		text += string(read(int(read(1)[0]))) + " "
		wrong := byte(0)
		if strings.Contains(text, "wrong") {
			wrong = 1
		}
		_, _ = c.Write([]byte{1, wrong})
	}
	switch read(4)[3] {
	case 1:
		text += net.IP(read(4)).String()
	case 3:
		text += string(read(int(read(1)[0])))
	case 4:
		text += net.IP(read(16)).String()
	}
	text += fmt.Sprint(" ", binary.BigEndian.Uint16(read(2)))
	code := byte(0)
	if strings.HasPrefix(text, "forbidden") {
		code = 2
	}
	_, _ = c.Write(append([]byte{5, code, 0, 3, 4}, "name\x00\x01hello"...))
	return text
}

func TestDialThroughProxies(t *testing.T) {
	httpProxy, httpAsked := startProxy(t, httpHandshake)
	socksProxy, socksAsked := startProxy(t, socksHandshake)
	for _, test := range []struct{ proxy, address, asked, err string }{
		{"http://" + httpProxy, "api.example.org:443", "CONNECT api.example.org:443 ", ""},
		{"http://u:p@" + httpProxy, "[2001:db8::1]:443", "CONNECT [2001:db8::1]:443 Basic dTpw", ""},
		{"http://" + httpProxy, "forbidden.example.org:443", "CONNECT forbidden.example.org:443 ", "403 Forbidden"},
		{"socks5://" + socksProxy, "api.example.org:443", "api.example.org 443", ""},
		{"socks5://" + socksProxy, "203.0.113.7:443", "203.0.113.7 443", ""},
		{"socks5h://" + socksProxy, "[2001:db8::1]:8443", "2001:db8::1 8443", ""},
		{"socks5://u:p@" + socksProxy, "api.example.org:443", "u:p api.example.org 443", ""},
		{"socks5://u:wrong@" + socksProxy, "api.example.org:443", "", "username/password authentication failed"},
		{"socks5://" + socksProxy, "forbidden.example.org:443", "forbidden.example.org 443", "not allowed"},
	} {
		proxy, err := url.Parse(test.proxy)
		if err != nil {
			t.Fatal(err)
		}
		dial, err := Dialer(TransportOptions{Proxy: proxy})
		if err != nil {
			t.Fatal(err)
		}
		c, err := dial(t.Context(), "tcp", test.address)
		if (err == nil) != (test.err == "") || err != nil && (!strings.Contains(err.Error(), test.err) || strings.Contains(err.Error(), ":wrong@")) {
			t.Errorf("%s to %s: %v", test.proxy, test.address, err)
		}
		if err == nil {
			if text, err := io.ReadAll(c); string(text) != "hello" || err != nil {
				t.Errorf("%s to %s: %q %v", test.proxy, test.address, text, err)
			}
			_ = c.Close()
		}
		asked := httpAsked
		if proxy.Scheme != "http" {
			asked = socksAsked
		}
		if got := await.Receive(t, asked, "the handshake"); test.asked != "" && got != test.asked {
			t.Errorf("%s to %s: asked for %q", test.proxy, test.address, got)
		}
	}
}

func TestDialerRefusesWhatItCannotDo(t *testing.T) {
	for _, proxy := range []string{"ftp://127.0.0.1:1", "http:///x", "socks5://"} {
		u, err := url.Parse(proxy)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Dialer(TransportOptions{Proxy: u}); err == nil {
			t.Errorf("%s: no error", proxy)
		}
	}
	if _, err := NewTransport(TransportOptions{CAFile: "missing.pem"}); err == nil {
		t.Error("a missing CA file is no error")
	}
}

// A proxy that says nothing is given up with the context.
func TestDialEndsWithItsContext(t *testing.T) {
	reached := make(chan struct{})
	address, _ := startProxy(t, func(c net.Conn) string {
		close(reached)
		_, _ = io.Copy(io.Discard, c)
		return ""
	})
	dial, err := Dialer(TransportOptions{Proxy: &url.URL{Scheme: "socks5", Host: address}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-reached; cancel() }()
	if c, err := dial(ctx, "tcp", "api.example.org:443"); err == nil {
		_ = c.Close()
		t.Error("connected")
	}
}
