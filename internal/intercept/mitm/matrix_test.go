package mitm

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"perigee/internal/testing/perigeetest/await"
)

func TestMatrix(t *testing.T) {
	for _, transparent := range []bool{false, true} {
		for _, clientHTTP2 := range []bool{false, true} {
			for _, serverHTTP2 := range []bool{false, true} {
				name := fmt.Sprintf("transparent=%v/client h2=%v/server h2=%v", transparent, clientHTTP2, serverHTTP2)
				t.Run(name, func(t *testing.T) { testExchange(t, transparent, clientHTTP2, serverHTTP2) })
			}
		}
	}
}

// testExchange makes one request of each kind.
func testExchange(t *testing.T, transparent, clientHTTP2, serverHTTP2 bool) {
	g := newRig(t, nil)
	next := make(chan string)
	g.server(serverHTTP2, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/json":
			body, _ := io.ReadAll(r.Body)
			w.Header().Set("X-Seen", fmt.Sprintf("%s %s %s %s %q %v", r.Method, r.Host, r.RequestURI, r.Proto, r.UserAgent(), r.Header["Accept-Encoding"]))
			w.Header().Set("Alt-Svc", `h3=":443"`)
			_, _ = w.Write(body)
		case "/sse":
			w.Header().Set("Content-Type", "text/event-stream")
			w.(http.Flusher).Flush()
			for event := range next {
				_, _ = io.WriteString(w, "data: "+event+"\n\n")
				w.(http.Flusher).Flush()
			}
		case "/echo":
			c, rw, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = c.Close() }()
			_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
			_, _ = io.Copy(c, rw.Reader)
		}
	}, "api.example.org")
	client := g.client(clientHTTP2, transparent)

	request, _ := http.NewRequest(http.MethodPost, "https://api.example.org/json?a=%zz;b", strings.NewReader(`{"a":1}`))
	request.Header.Set("User-Agent", "")
	resp, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	proto := "HTTP/1.1"
	if clientHTTP2 && serverHTTP2 {
		proto = "HTTP/2.0"
	}
	if want := `POST api.example.org /json?a=%zz;b ` + proto + ` "" []`; resp.Header.Get("X-Seen") != want || string(body) != `{"a":1}` {
		t.Errorf("the server saw %s, the client %s", resp.Header.Get("X-Seen"), body)
	}
	if clientHTTP2 != (resp.ProtoMajor == 2) || resp.Header.Get("Alt-Svc") != "" || resp.Header.Get("Via") != "" {
		t.Errorf("%s %v", resp.Proto, resp.Header)
	}

	resp, err = client.Get("https://api.example.org/sse")
	if err != nil { // the head is here before the first event
		t.Fatal(err)
	}
	reader := bufio.NewReader(resp.Body)
	for _, event := range []string{"one", "two"} {
		await.Send(t, next, event, "the server takes an event")
		if line, err := reader.ReadString('\n'); line != "data: "+event+"\n" {
			t.Fatalf("%q %v", line, err)
		}
		_, _ = reader.ReadString('\n')
	}
	close(next)
	if rest, err := io.ReadAll(reader); err != nil || len(rest) > 0 {
		t.Errorf("the end: %q %v", rest, err)
	}
	_ = resp.Body.Close()
	if !clientHTTP2 {
		testUpgrade(t, client)
	}
}

func testUpgrade(t *testing.T, client *http.Client) {
	request, _ := http.NewRequest(http.MethodGet, "https://api.example.org/echo", nil)
	request.Header.Set("Connection", "Upgrade")
	request.Header.Set("Upgrade", "echo")
	resp, err := client.Transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatal(resp.Status)
	}
	stream := resp.Body.(io.ReadWriteCloser)
	defer func() { _ = stream.Close() }()
	if _, err := io.WriteString(stream, "hello"); err != nil {
		t.Fatal(err)
	}
	var echo [5]byte
	if _, err := io.ReadFull(stream, echo[:]); err != nil || string(echo[:]) != "hello" {
		t.Errorf("%q %v", echo, err)
	}
}

func TestTunnel(t *testing.T) {
	for _, transparent := range []bool{false, true} {
		for _, http2 := range []bool{false, true} {
			g := newRig(t, nil)
			g.server(http2, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "hello") }, "unseen.example.net")
			client := g.client(http2, transparent)
			resp, err := client.Get("https://unseen.example.net/")
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if string(body) != "hello" || resp.TLS.PeerCertificates[0].CheckSignatureFrom(g.ca.cert) != nil {
				t.Errorf("%s", body)
			}
			client.CloseIdleConnections()
			tunnel := await.Receive(t, g.tunnels, "the end of the tunnel")
			if tunnel.Address != "unseen.example.net:443" || tunnel.Sent < 100 || tunnel.Received < 100 || tunnel.Took <= 0 {
				t.Errorf("%+v", tunnel)
			}
		}
	}
}

// A side that has sent everything can still receive.
func TestTunnelPassesHalfClosedConnectionsOn(t *testing.T) {
	g := newRig(t, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	g.name(l.Addr().String(), "half.example.net")
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer func() { _ = c.Close() }()
		all, _ := io.ReadAll(c) // to the end
		_, _ = fmt.Fprintf(c, "%d bytes", len(all))
	}()
	c := g.dial()
	_, _ = io.WriteString(c, "CONNECT half.example.net:7 HTTP/1.1\r\nHost: x\r\n\r\nearly")
	reader := bufio.NewReader(c)
	resp, err := http.ReadResponse(reader, &http.Request{Method: http.MethodConnect})
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatal(resp, err)
	}
	_, _ = io.WriteString(c, " and late")
	_ = c.(*net.TCPConn).CloseWrite()
	if rest, err := io.ReadAll(reader); string(rest) != "14 bytes" || err != nil {
		t.Errorf("%q %v", rest, err)
	}
	if tunnel := await.Receive(t, g.tunnels, "the end of the tunnel"); tunnel.Sent != 14 || tunnel.Received != 8 || tunnel.Err != nil {
		t.Errorf("%+v", tunnel)
	}
}
