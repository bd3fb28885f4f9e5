package cloud

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"perigee/internal/intercept/authority"
	"perigee/internal/intercept/mitm"
	"perigee/internal/lib/netguard"
	"perigee/internal/testing/perigeetest/await"
)

// throughProxy lets the language server come through an intercepting proxy, with HTTP/2 or HTTP/1.1
// on both sides of it. The cloud has TLS, and is at another address than the language server
// believes.
func (r *rig) throughProxy(http2 bool) {
	r.Helper()
	must := func(err error) {
		r.Helper()
		if err != nil {
			r.Fatal(err)
		}
	}
	cloud := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if want := 1 + map[bool]int{true: 1}[http2]; req.ProtoMajor != want {
			r.Errorf("the cloud was called with %s", req.Proto)
		}
		r.cloud.Config.Handler.ServeHTTP(w, req)
	}))
	cloud.EnableHTTP2 = true
	cloud.StartTLS()
	roots := filepath.Join(r.TempDir(), "roots.pem")
	must(os.WriteFile(roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cloud.Certificate().Raw}), 0o600))
	hosts, err := netguard.ParseHosts([]string{"cloud.example.org"})
	must(err)
	ca, _, err := authority.Open(r.TempDir(), hosts, nil)
	must(err)
	transport, err := mitm.NewTransport(mitm.TransportOptions{CAFile: roots})
	must(err)
	h, err := New(Options{Calls: r.calls, Failed: mitm.AnswerFailed, Transport: transport, Cloud: cloud.URL, Logger: slog.New(cutOffs(r.finished))})
	must(err)
	proxy := mitm.New(mitm.Options{Authority: ca, Hosts: hosts, Handler: h})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	served := make(chan error, 1)
	go func() { served <- proxy.Serve(listener) }()
	trusted := x509.NewCertPool()
	trusted.AddCert(ca.Info().Certificate)
	own := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: listener.Addr().String()}), TLSClientConfig: &tls.Config{RootCAs: trusted}, ForceAttemptHTTP2: http2, DisableCompression: true}
	r.base, r.agent = "https://cloud.example.org", &http.Client{Transport: own}
	r.Cleanup(func() {
		own.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := proxy.Shutdown(ctx); err != nil {
			r.Error(err)
		}
		if err := await.Receive(r.T, served, "the end of the proxy"); !errors.Is(err, http.ErrServerClosed) {
			r.Error(err)
		}
		transport.(interface{ CloseIdleConnections() }).CloseIdleConnections()
		cloud.Close()
	})
}

// Calls are carried in the same way when the language server comes through a proxy.
func TestCallsThroughAProxy(t *testing.T) {
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			stopped := make(chan struct{}, 1)
			r := newCallRig(t, func(w http.ResponseWriter, req *http.Request) {
				if strings.HasSuffix(req.URL.Path, ":fetchAvailableModels") {
					_, _ = io.WriteString(w, "models")
					return
				}
				events(hello, calling)(w, req)
				if req.Header.Get("X-Wait") != "" {
					<-req.Context().Done()
					stopped <- struct{}{}
				}
			})
			r.throughProxy(http2)
			client, ls := r.call(Call{Model: "gemini-3-flash", Request: []byte(`{"contents":[{"parts":[{"text":"hi"}]}]}`)})
			whole := "data: " + hello + "\r\n\r\ndata: " + calling + "\r\n\r\n"
			if client != whole || ls.err != nil || !strings.Contains(ls.body, closing) || strings.Contains(ls.body, "functionCall") {
				t.Errorf("the client got %s, the language server %+v", client, ls)
			}
			if got := r.requests()[0]; !strings.Contains(got.body, `"request":{"contents":[{"parts":[{"text":"hi"}]}],"labels"`) || got.header.Get("Authorization") != "Bearer token-of-the-language-server" || got.uri != streamPath {
				t.Errorf("the cloud got %+v", got)
			}
			if got := await.Receive(t, r.carrier(native("checkpoint/1")), "the checkpoint"); got.body != whole || r.requests()[1].body != native("checkpoint/1") {
				t.Errorf("the checkpoint got %+v", got)
			}
			if got := await.Receive(t, r.carrierOn("/v1internal:fetchAvailableModels", "\x0a\x00", "Content-Type", "application/x-protobuf"), "the models"); got.body != "models" {
				t.Errorf("the models are %+v", got)
			}
			// A client that leaves, and a language server that does not take its part for the
			// whole.
			e := r.calls.Expect(t.Context(), cascade, Call{Request: []byte(`{}`)})
			got := r.carrier(native(agentID(cascade)), "X-Wait", "1")
			response, err := answerOf(t, e)
			if err != nil {
				t.Fatal(err)
			}
			firstLine(t, response.Body)
			_ = response.Body.Close()
			await.Receive(t, stopped, "the end of the provider's stream")
			if ls := await.Receive(t, got, "the end for the language server"); ls.err == nil {
				t.Errorf("the language server got %+v, complete", ls)
			}
		})
	}
}

// A request to the cloud has the values of the call's context, such as what is to be told of a
// connection that is lost, and of that of the language server's request, such as where its
// connection went.
func TestValuesOfBothContexts(t *testing.T) {
	type key string
	outer := context.WithValue(context.WithValue(t.Context(), key("a"), "call"), key("both"), "call")
	request := context.WithValue(context.WithValue(t.Context(), key("b"), "request"), key("both"), "request")
	ctx := context.Context(callContext{Context: outer, request: request})
	if ctx.Value(key("a")) != "call" || ctx.Value(key("b")) != "request" || ctx.Value(key("both")) != "call" || ctx.Value(key("c")) != nil {
		t.Errorf("got %v, %v, %v", ctx.Value(key("a")), ctx.Value(key("b")), ctx.Value(key("both")))
	}
}
