package mitm

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"perigee/internal/testing/perigeetest/await"
)

// raw sends bytes to the proxy and returns the first answer.
func (g *rig) raw(text string) (status int, body string) {
	g.t.Helper()
	c := g.dial()
	defer func() { _ = c.Close() }()
	_, _ = io.WriteString(c, text)
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		g.t.Fatalf("%q: %v", text, err)
	}
	defer func() { _ = resp.Body.Close() }()
	all, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(all)
}

func TestTheProxyItself(t *testing.T) {
	g := newRig(t, nil)
	_, port, _ := net.SplitHostPort(g.address)
	g.name(g.address, "loop.example.net")
	const head = " HTTP/1.1\r\nHost: 127.0.0.1\r\n"
	for request, want := range map[string]int{
		"CONNECT 127.0.0.1:" + port + head:                      403,
		"CONNECT localhost:" + port + head:                      403,
		"CONNECT [::1]:" + port + head:                          403,
		"CONNECT 0.0.0.0:" + port + head:                        403,
		"CONNECT api.example.org" + head:                        400,
		"CONNECT api.example.org:" + head:                       400,
		"CONNECT api.example.org:0" + head:                      400,
		"CONNECT api.example.org:99999" + head:                  400,
		"CONNECT " + strings.Repeat("a", 8<<10) + ":443" + head: 400,
		"CONNECT nowhere.example.net:443" + head:                502,
		"GET http://127.0.0.1:" + port + "/" + head:             403,
		"GET https://api.example.org/" + head:                   400,
		"GET /" + head:                                          404,
		"GET / HTTP/1.1\r\nHost: localhost:" + port + "\r\n":    404,
		"GET / HTTP/1.1\r\nHost: [::1]:" + port + "\r\n":        404,
		"GET / HTTP/1.1\r\nHost: evil.example\r\n":              403,
		"GET /" + head + "Origin: https://evil.example\r\n":     403,
		"GET /" + head + "Origin: null\r\n":                     403,
		"POST /" + head + "Origin: http://127.0.0.1\r\n":        403,
	} {
		if status, body := g.raw(request + "\r\n"); status != want || body == "" {
			t.Errorf("%.60q: %d %s", request, status, body)
		}
	}
}

func TestAbsoluteForm(t *testing.T) {
	g := newRig(t, func(o *Options) {
		o.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = fmt.Fprintf(w, "intercepted %s %s", r.URL, r.Host)
		})
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "forwarded %s %s", r.RequestURI, r.Host)
	})}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(l) }()
	defer func() {
		_ = server.Close()
		await.Receive(t, done, "the end of the server")
	}()
	g.name(l.Addr().String(), "plain.example.net")
	for request, want := range map[string]string{
		"GET http://api.example.org/a?b HTTP/1.1\r\nHost: other.example.org":   "intercepted http://api.example.org/a?b api.example.org",
		"GET http://plain.example.net/a|b?%zz HTTP/1.1\r\nHost: other.example": "forwarded /a|b?%zz plain.example.net",
	} {
		if status, body := g.raw(request + "\r\n\r\n"); status != 200 || body != want {
			t.Errorf("%s: %d %s", request, status, body)
		}
	}
}

// A tunnel leads where CONNECT says, whatever the requests in it say.
func TestHostDoesNotRoute(t *testing.T) {
	g := newRig(t, nil)
	for _, name := range []string{"right.example.org", "wrong.example.org"} {
		g.server(true, func(w http.ResponseWriter, r *http.Request) { _, _ = fmt.Fprint(w, name, " ", r.Host) }, name)
	}
	for _, http2 := range []bool{false, true} {
		request, _ := http.NewRequest(http.MethodGet, "https://right.example.org/", nil)
		request.Host = "wrong.example.org"
		resp, err := g.client(http2, false).Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if string(body) != "right.example.org wrong.example.org" {
			t.Errorf("%s", body)
		}
	}
}

func TestAClientWithoutTLSIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newPipeRig(t, nil)
		for _, text := range []string{"GET / HTTP/1.1\r\n\r\n", ""} {
			c := g.dial()
			_, _ = io.WriteString(c, "CONNECT api.example.org:443 HTTP/1.1\r\nHost: x\r\n\r\n")
			resp, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: http.MethodConnect})
			if err != nil || resp.StatusCode != 200 {
				t.Fatal(resp, err)
			}
			began := time.Now()
			_, _ = io.WriteString(c, text)
			_, _ = io.Copy(io.Discard, c)
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("%q: closed after %v", text, took)
			}
		}
		synctest.Wait()
		if n := strings.Count(g.log.String(), "TLS handshake with a client failed"); n != 2 {
			t.Errorf("%d lines", n)
		}
	})
}

func TestAClientThatDoesNotTrustTheAuthorityIsLogged(t *testing.T) {
	g := newRig(t, nil)
	client := g.client(false, false)
	client.Transport.(*http.Transport).TLSClientConfig.RootCAs = nil
	if _, err := client.Get("https://api.example.org/"); err == nil {
		t.Error("no error")
	}
	g.logged("does it trust the certificate authority")
}
