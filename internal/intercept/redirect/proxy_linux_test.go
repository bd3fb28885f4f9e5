package redirect

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"perigee/internal/intercept/authority"
	"perigee/internal/intercept/mitm"
	"perigee/internal/lib/netguard"
	"perigee/internal/lib/peeruser"
	"perigee/internal/lib/procgroup"
	"perigee/internal/testing/perigeetest/await"
)

// get asks a server at an address by its name, and returns the answer and whether the certificate
// is of perigee. It trusts the certificates of a file.
func get(address, host, roots string) (string, error) {
	text, err := os.ReadFile(roots)
	if err != nil {
		return "", err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, address)
		},
		ForceAttemptHTTP2: true,
	}
	defer transport.CloseIdleConnections()
	res, err := (&http.Client{Transport: transport, Timeout: patience}).Get("https://" + host + "/")
	if err != nil {
		return "", err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	issuer := strings.Join(res.TLS.PeerCertificates[0].Issuer.Organization, " ") + res.TLS.PeerCertificates[0].Issuer.CommonName
	return fmt.Sprintf("%s %s perigee=%v", res.Proto, body, strings.Contains(strings.ToLower(issuer), "perigee")), err
}

// TestProxyOfRedirectedConnections has the real proxy behind the rules: it intercepts one host,
// tunnels another one, and reaches both at the addresses that the client connected to, because it
// belongs to another user.
func TestProxyOfRedirectedConnections(t *testing.T) {
	backend, inside := inSystem(t, NFTables, IPTables)
	if !inside {
		return
	}
	program := program(t)
	trusted := filepath.Join(filepath.Dir(program), "roots.pem") // by client and proxy
	roots := startCloud(t)
	hosts, err := netguard.ParseHosts([]string{"cloud.example.com"})
	must(t, err)
	ca, _, err := authority.Open(t.TempDir(), hosts, nil)
	must(t, err)
	roots = append(roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Info().Certificate.Raw})...)
	must(t, os.WriteFile(trusted, roots, 0o644))

	var mu sync.Mutex
	var seen []string
	forward := mitm.NewForwarder(mitm.ForwarderOptions{Transport: mitm.TransportOptions{CAFile: trusted}})
	proxy := mitm.New(mitm.Options{
		Authority: ca, Hosts: hosts,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			seen = append(seen, r.URL.String()+" "+mitm.Destination(r.Context()))
			mu.Unlock()
			forward.ServeHTTP(w, r)
		}),
	})
	var served sync.WaitGroup
	for _, address := range []string{"127.0.0.1:8742", "[::1]:8742"} {
		listener, err := net.Listen("tcp", address)
		must(t, err)
		served.Go(func() {
			if err := proxy.ServeTransparent(listener); !errors.Is(err, http.ErrServerClosed) {
				t.Error(err)
			}
		})
	}
	defer func() { await.Return(t, served.Wait, "the end of the proxy") }()
	defer func() { _ = proxy.Shutdown(context.Background()) }()

	_, err = New().Install(t.Context(), Request{User: "perigee-test", Port: DefaultPort, Backend: backend})
	must(t, err)
	u, err := procgroup.Lookup("perigee-test")
	must(t, err)
	const other = 61234
	var want []string
	for _, address := range []string{cloud4 + ":443", "[" + cloud6 + "]:443"} {
		for _, c := range []struct {
			uid        int
			host, want string
		}{
			{u.UID, "cloud.example.com", "HTTP/2.0 cloud.example.com at " + address + " perigee=true <nil>"},
			{u.UID, "other.example.com", "HTTP/2.0 other.example.com at " + address + " perigee=false <nil>"},
			{other, "cloud.example.com", "HTTP/2.0 cloud.example.com at " + address + " perigee=false <nil>"},
		} {
			if got := as(t, program, c.uid, "https", address, c.host, trusted); got != c.want {
				t.Errorf("user %d, %s at %s: got %q, want %q", c.uid, c.host, address, got, c.want)
			}
		}
		want = append(want, "https://cloud.example.com/ "+address)
	}
	if strings.Join(seen, "\n") != strings.Join(want, "\n") {
		t.Errorf("the proxy has seen %q, want %q", seen, want)
	}
	if _, err := New().Remove(t.Context()); err != nil {
		t.Error(err)
	}
	if got := as(t, program, u.UID, "https", cloud4+":443", "cloud.example.com", trusted); !strings.HasSuffix(got, "perigee=false <nil>") {
		t.Errorf("after the removal: %s", got)
	}
}

// startCloud starts a server that has cloud.example.com and other.example.com, and returns its
// certificate.
func startCloud(t *testing.T) (roots []byte) {
	t.Helper()
	for _, address := range []string{cloud4 + ":443", "[" + cloud6 + "]:443"} {
		listener, err := net.Listen("tcp", address)
		must(t, err)
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, "%s at %s", r.Host, r.Context().Value(http.LocalAddrContextKey))
		}))
		_ = server.Listener.Close()
		server.Listener, server.EnableHTTP2 = listener, true
		server.StartTLS()
		t.Cleanup(server.Close)
		roots = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	}
	return roots
}

// TestOnlyTheRedirectedUserIsServed has the proxy admit the redirected user and root, whose sockets
// are connected to where they were going. Connections that another user makes to the port of the
// proxy are closed before anything is read from them.
func TestOnlyTheRedirectedUserIsServed(t *testing.T) {
	backend, inside := inSystem(t, NFTables, IPTables)
	if !inside {
		return
	}
	program := program(t)
	trusted := filepath.Join(filepath.Dir(program), "roots.pem")
	hosts, err := netguard.ParseHosts([]string{"cloud.example.com"})
	must(t, err)
	ca, _, err := authority.Open(t.TempDir(), hosts, nil)
	must(t, err)
	must(t, os.WriteFile(trusted, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Info().Certificate.Raw}), 0o644))
	_, err = New().Install(t.Context(), Request{User: "perigee-test", Port: DefaultPort, Backend: backend})
	must(t, err)
	u, err := procgroup.Lookup("perigee-test")
	must(t, err)

	proxy := mitm.New(mitm.Options{
		Authority: ca, Hosts: hosts, Admit: peeruser.Only(t.Context(), u.UID).OwnTo,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, "to %q", mitm.Destination(r.Context()))
		}),
	})
	var served sync.WaitGroup
	for _, address := range []string{"127.0.0.1:8742", "[::1]:8742"} {
		listener, err := net.Listen("tcp", address)
		must(t, err)
		served.Go(func() { _ = proxy.ServeTransparent(listener) })
	}
	defer func() { await.Return(t, served.Wait, "the end of the proxy") }()
	defer func() { _ = proxy.Shutdown(context.Background()) }()

	const other = 61234
	for _, address := range []string{"127.0.0.1:8742", "[::1]:8742"} {
		for _, uid := range []int{0, u.UID} {
			if got, want := as(t, program, uid, "https", address, "cloud.example.com", trusted), `HTTP/2.0 to "" perigee=true <nil>`; got != want {
				t.Errorf("user %d, directly to %s: got %q, want %q", uid, address, got, want)
			}
		}
		if got := as(t, program, other, "https", address, "cloud.example.com", trusted); strings.Contains(got, "HTTP/") || strings.HasSuffix(got, "<nil>") {
			t.Errorf("another user, directly to %s: got %q", address, got)
		}
	}
	for _, address := range []string{far4 + ":443", "[" + far6 + "]:443"} {
		if got, want := as(t, program, u.UID, "https", address, "cloud.example.com", trusted), fmt.Sprintf("HTTP/2.0 to %q perigee=true <nil>", address); got != want {
			t.Errorf("redirected from %s: got %q, want %q", address, got, want)
		}
	}
	if _, err := New().Remove(t.Context()); err != nil {
		t.Error(err)
	}
}
