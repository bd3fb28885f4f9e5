package gemini

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"perigee"
	"perigee/internal/perigeetest"
	"perigee/internal/upstream/wire"
)

// deadRig is an upstream whose provider is behind a relay.
func deadRig(t *testing.T, http2 bool, firstByte time.Duration) (*Upstream, *perigeetest.Relay) {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("alt") == "sse" {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "data: %s\r\n\r\n", finished)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, finished)
	}))
	server.EnableHTTP2 = http2
	server.StartTLS()
	t.Cleanup(server.Close)
	relay := perigeetest.NewRelay(t, server.Listener.Addr().String())
	transport := wire.NewTransport()
	roots := server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	transport.Configure(func(t *http.Transport) { t.TLSClientConfig = &tls.Config{RootCAs: roots} })
	u := New(Options{Name: "s", URL: "https://" + relay.Address, Keys: []perigee.Secret{perigee.NewSecret("k")}, Transport: transport, FirstByte: firstByte})
	t.Cleanup(func() { _ = u.Close() })
	return u, relay
}

// All calls are answered although the connection to the provider died, and the one that waited on it has that on record.
func TestDeadConnectionIsReplaced(t *testing.T) {
	perigeetest.Slow(t)
	u, relay := deadRig(t, true, time.Minute)
	if text, err := ask(t.Context(), u, request(t, true)); text != "ok" || err != nil {
		t.Fatal(text, err)
	}
	relay.Stall()
	for i := range 20 {
		req := request(t, i%2 == 0)
		req.Log = &perigee.CallLog{}
		if text, err := ask(t.Context(), u, req); text != "ok" || err != nil {
			t.Fatalf("call %d: %q, %v", i, text, err)
		}
		said := ""
		for _, s := range req.Log.Attempts() {
			said += fmt.Sprintf("%s: %s %s; ", s.Why, s.Class, s.Error)
		}
		want := ""
		if i == 0 {
			want = "key 1 of 1: unavailable upstream s cannot be reached or broke off: http2: client connection lost; sent again on a new connection:  ; "
		}
		if said != want {
			t.Errorf("call %d: steps %q, want %q", i, said, want)
		}
	}
	if n := relay.Accepted(); n != 2 {
		t.Errorf("%d connections", n)
	}
}

// Where nothing tells a dead connection from a silent provider, only one call times out.
func TestFirstByteTimeoutLeavesTheConnection(t *testing.T) {
	perigeetest.Slow(t)
	for _, http2 := range []bool{false, true} {
		u, relay := deadRig(t, http2, 2*time.Second) // HTTP/2 would know after six
		if text, err := ask(t.Context(), u, request(t, true)); text != "ok" || err != nil {
			t.Fatal(text, err)
		}
		relay.Stall()
		failed := 0
		for i := range 20 {
			text, err := ask(t.Context(), u, request(t, true))
			if e := perigee.AsError(err); e != nil && e.Status == http.StatusGatewayTimeout {
				failed++
				continue
			}
			if text != "ok" || err != nil {
				t.Fatalf("call %d: %q, %v", i, text, err)
			}
		}
		if failed != 1 {
			t.Errorf("HTTP/2 %t: %d of 20 calls timed out, want 1", http2, failed)
		}
	}
}
