package limittests

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"perigee/internal/daemon"
	"perigee/internal/testing/daemontest"
	"perigee/internal/testing/perigeetest"
	"perigee/internal/testing/perigeetest/await"
)

// A certDir is a directory with a certificate and its key.
type certDir struct {
	t    *testing.T
	path string
}

func newCertDir(t *testing.T) *certDir { return &certDir{t, t.TempDir()} }

func (d *certDir) config() string {
	return fmt.Sprintf("tls: {cert: %q, key: %q}\n", filepath.Join(d.path, "cert.pem"), filepath.Join(d.path, "key.pem"))
}

func (d *certDir) put(name string, text []byte) {
	d.t.Helper()
	path := filepath.Join(d.path, name)
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		d.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil { // so that no reload sees half of it
		d.t.Fatal(err)
	}
}

// issue writes a new pair and returns a transport that trusts nothing else.
func (d *certDir) issue(name string) *http.Transport {
	d.t.Helper()
	cert, key := perigeetest.Certificate(d.t, name, time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	d.put("cert.pem", cert)
	d.put("key.pem", key)
	return trusting(cert)
}

func trusting(cert []byte) *http.Transport {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(cert)
	return &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}
}

func secureGet(t *testing.T, transport *http.Transport, url string) (*http.Response, error) {
	t.Helper()
	t.Cleanup(transport.CloseIdleConnections)
	resp, err := (&http.Client{Transport: transport, Timeout: await.Limit}).Get(url)
	if err == nil {
		_ = resp.Body.Close()
	}
	return resp, err
}

func TestTLSSpeaksBothVersionsOfHTTP(t *testing.T) {
	t.Parallel()
	dir := newCertDir(t)
	transport := dir.issue("perigee")
	provider := daemontest.NewStage(t)
	g, _, _ := daemontest.Follow(t, provider.Config(dir.config()))
	if !strings.HasPrefix(g.URL(), "https://127.0.0.1:") {
		t.Fatalf("the address is %s", g.URL())
	}
	if status, err := daemon.Status(t.Context(), g.Config); err != nil || status.Listen != g.URL() { // commands use the socket
		t.Errorf("%+v, %v", status, err)
	}
	old := transport.Clone()
	old.TLSClientConfig.MaxVersion = tls.VersionTLS11
	if resp, err := secureGet(t, old, g.URL()+"/health"); err == nil {
		t.Errorf("TLS 1.1 got %s", resp.Status)
	}
	one := transport.Clone()
	one.Protocols = new(http.Protocols)
	one.Protocols.SetHTTP1(true)
	one.TLSClientConfig.NextProtos = []string{"http/1.1"} // Clone has added h2
	one.ForceAttemptHTTP2 = false
	for major, tr := range map[int]*http.Transport{1: one, 2: transport} {
		resp, err := secureGet(t, tr, g.URL()+"/health")
		if err != nil || resp.StatusCode != http.StatusOK || resp.ProtoMajor != major || resp.TLS.Version < tls.VersionTLS12 {
			t.Errorf("HTTP/%d: %+v, %v", major, resp, err)
		}
	}
	// An event arrives while the answer goes on.
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.URL()+"/v1beta/models/gemini-2.5-flash:"+daemontest.Streaming, strings.NewReader(daemontest.Question))
	if err != nil {
		t.Fatal(err)
	}
	stream, err := transport.RoundTrip(req)
	if err != nil || stream.ProtoMajor != 2 {
		t.Fatalf("%+v, %v", stream, err)
	}
	want := "data: " + daemontest.FirstEvent + "\r\n\r\n"
	got := make([]byte, len(want))
	for n := 0; n < len(got); {
		m, err := stream.Body.Read(got[n:])
		if n += m; err != nil {
			t.Fatal(err)
		}
	}
	if string(got) != want {
		t.Errorf("the first event is %q", got)
	}
	// The same connection has room for another call meanwhile.
	if _, err := secureGet(t, transport, g.URL()+"/health"); err != nil {
		t.Error(err)
	}
	socket, _, err := websocket.Dial(t.Context(), g.URL()+"/v1/responses", &websocket.DialOptions{HTTPClient: &http.Client{Transport: one}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = socket.CloseNow() }()
	close(provider.GoOn)
	say(t, socket, `{"type":"response.create","model":"gemini-2.5-flash","input":"Hi"}`)
	hear(t, socket, "response.completed")
	if got := daemontest.Rest(t, stream); got != "data: "+daemontest.LastEvent+"\r\n\r\n" {
		t.Errorf("the rest of the stream is %q", got)
	}
}

func TestTLSTakesARenewedCertificate(t *testing.T) {
	perigeetest.Slow(t)
	t.Parallel()
	dir := newCertDir(t)
	first := dir.issue("first")
	provider := daemontest.NewStage(t)
	g, book, write := daemontest.Follow(t, provider.Config(dir.config()))
	get := func(tr *http.Transport) error {
		_, err := secureGet(t, tr.Clone(), g.URL()+"/health") // a clone has no connection yet, so that each is a handshake
		return err
	}
	if err := get(first); err != nil {
		t.Fatal(err)
	}
	req, _ := http.NewRequestWithContext(context.Background(), http.MethodPost, g.URL()+"/v1beta/models/gemini-2.5-flash:"+daemontest.Streaming, strings.NewReader(daemontest.Question))
	open, err := first.Clone().RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	await.Receive(t, provider.Begun, "the call to begin")

	// Between the certificate and its key a renewal stops for any time.
	cert, key := perigeetest.Certificate(t, "second", time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	second := trusting(cert)
	dir.put("cert.pem", cert)
	book.Line(t, "keeping the previous one", "does not belong to the certificate")
	if err := get(first); err != nil {
		t.Errorf("with half a pair: %v", err)
	}
	dir.put("key.pem", key)
	line := book.Line(t, "configuration") // and not the error again
	if !strings.Contains(line, "configuration reloaded") || !strings.Contains(line, "changed=tls") || !strings.Contains(line, "certificate_expires=20") {
		t.Errorf("the log says %s", line)
	}
	if err := get(second); err != nil {
		t.Errorf("with the second certificate: %v", err)
	}
	if err := get(first); err == nil {
		t.Error("the first certificate is still presented")
	}
	close(provider.GoOn)
	if got := daemontest.Rest(t, open); !strings.HasSuffix(got, "data: "+daemontest.LastEvent+"\r\n\r\n") {
		t.Errorf("the stream that was open ended with %q", got)
	}
	write(provider.Config(""))
	book.Line(t, "need a restart and are not in effect", "settings=tls")
	if err := get(second); err != nil {
		t.Errorf("after tls was removed: %v", err)
	}
}

// What a file says about tls is not in effect before a restart, and no warning says that it is.
func TestRemovingTLSDoesNotSayThatItIsGone(t *testing.T) {
	t.Parallel()
	dir := newCertDir(t)
	dir.issue("first")
	provider := daemontest.NewStage(t)
	_, book, write := daemontest.FollowOn(t, provider.Config("keys: [{name: a, secret: a-secret-of-some-length}]\n"+dir.config()), map[string]string{"listen": "0.0.0.0:0"})
	write(provider.Config("keys: [{name: a, secret: a-secret-of-some-length}]\n"))
	for line := range book {
		if strings.Contains(line, "unencrypted") {
			t.Errorf("the log says %s", line)
		}
		if strings.Contains(line, "need a restart and are not in effect") {
			break
		}
	}
}
