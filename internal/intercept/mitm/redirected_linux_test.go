package mitm

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"perigee/internal/testing/perigeetest/await"
)

// TestRedirect runs itself in a network namespace of its own, where connections are redirected as
// in transparent mode. That needs root, or user namespaces, and iptables.
func TestRedirect(t *testing.T) {
	if os.Getenv("MITM_TEST_NAMESPACE") == "" {
		runInNamespace(t)
		return
	}
	for _, command := range []string{
		"ip link set lo up",
		"ip addr add 203.0.113.7/32 dev lo", "ip addr add 203.0.113.8/32 dev lo", "ip -6 addr add 2001:db8::7/128 dev lo nodad",
		"iptables -t nat -A OUTPUT -p tcp --dport 443 -m mark --mark 7 -j REDIRECT --to-ports 8742",
		"ip6tables -t nat -A OUTPUT -p tcp --dport 443 -m mark --mark 7 -j REDIRECT --to-ports 8742",
	} {
		args := strings.Fields(command)
		if out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput(); err != nil {
			fmt.Printf("UNSUPPORTED: %s: %v %s\n", command, err, out)
			return
		}
	}
	g := newRig(t, nil)
	g.proxy.original = originalDestination
	transport := TransportOptions{CAFile: g.ca.file}
	forwarder := NewForwarder(ForwarderOptions{Transport: transport})
	defer forwarder.(interface{ CloseIdleConnections() }).CloseIdleConnections()
	g.proxy.opts.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Proxy", r.URL.Scheme+"://"+r.URL.Host+" "+Destination(r.Context()))
		forwarder.ServeHTTP(w, r)
	})
	g.proxy.opts.Dial = (&net.Dialer{}).DialContext
	for _, listen := range []string{"127.0.0.1:8742", "[::1]:8742"} {
		l, err := net.Listen("tcp", listen)
		if err != nil {
			t.Fatal(err)
		}
		go func() { _ = g.proxy.ServeTransparent(l) }()
	}
	for _, address := range []string{"203.0.113.7:443", "203.0.113.8:443", "[2001:db8::7]:443"} {
		server := g.server(true, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, address) }, "api.example.org", "unseen.example.net")
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		go serveThrough(l, server.Listener.Addr().String())
		defer func() { _ = l.Close() }()
		for _, http2 := range []bool{false, true} {
			for host, proxied := range map[string]string{"api.example.org": "https://api.example.org " + address, "unseen.example.net": ""} {
				client := g.client(http2, false)
				client.Transport.(*http.Transport).Proxy = nil
				client.Transport.(*http.Transport).DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
					return (&net.Dialer{Control: mark}).DialContext(ctx, network, address)
				}
				resp, body := get(t, client, "https://"+host+"/")
				if body != address || resp.Header.Get("X-Proxy") != proxied {
					t.Errorf("%s at %s: %q %q", host, address, body, resp.Header.Get("X-Proxy"))
				}
				client.CloseIdleConnections()
				if proxied == "" {
					if tunnel := await.Receive(t, g.tunnels, "the end of the tunnel"); tunnel.Address != address {
						t.Errorf("%+v", tunnel)
					}
				}
			}
		}
	}
	fmt.Println("REDIRECTED")
}

// mark marks the connections of the client, as those that are redirected.
func mark(_, _ string, c syscall.RawConn) (err error) {
	controlled := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MARK, 7) })
	if err == nil {
		err = controlled
	}
	return err
}

// serveThrough passes connections on to an address.
func serveThrough(l net.Listener, address string) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", address)
		if err != nil {
			_ = c.Close()
			continue
		}
		t := &tunnel{idle: time.Hour}
		go t.copy(server, c, nil)
		go t.copy(c, server, nil)
	}
}

func runInNamespace(t *testing.T) {
	args := []string{"-n", os.Args[0], "-test.run=^TestRedirect$", "-test.timeout=1m"}
	if os.Getuid() != 0 {
		args = append([]string{"-r"}, args...)
	}
	ctx, cancel := context.WithTimeout(t.Context(), await.Limit+10*time.Second)
	defer cancel()
	command := exec.CommandContext(ctx, "unshare", args...)
	command.Env = append(os.Environ(), "MITM_TEST_NAMESPACE=1")
	out, err := command.CombinedOutput()
	switch text := string(out); {
	case strings.Contains(text, "UNSUPPORTED"), strings.Contains(text, "unshare: "), len(text) == 0 && err != nil:
		t.Skipf("no redirects here: %v %s", err, text)
	case err != nil || !strings.Contains(text, "REDIRECTED"):
		t.Errorf("%v\n%s", err, text)
	}
}
