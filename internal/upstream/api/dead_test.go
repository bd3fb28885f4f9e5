package api

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"perigee"
	"perigee/internal/lib/wire"
	"perigee/internal/store/config"
	"perigee/internal/testing/perigeetest"
)

// deadRig is an upstream, in a bubble, whose connections can die.
func deadRig(t *testing.T, http2 bool, firstByte time.Duration) (*Upstream, *perigeetest.Pipes) {
	t.Helper()
	var protocols http.Protocols
	protocols.SetHTTP1(!http2)
	protocols.SetUnencryptedHTTP2(http2)
	pipes := perigeetest.NewPipes()
	server := &http.Server{Protocols: &protocols, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("alt") == "sse" {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "data: %s\r\n\r\n", finished)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, finished)
	})}
	go func() { _ = server.Serve(pipes) }()
	t.Cleanup(func() { _ = server.Close() })
	transport := wire.NewTransport()
	transport.Configure(func(t *http.Transport) { t.DialContext, t.Protocols = pipes.Dial, &protocols })
	u := New(Gemini, Options{Name: "s", URL: "http://provider.example", Keys: []perigee.Secret{perigee.NewSecret("k")}, Transport: transport, FirstByte: firstByte})
	t.Cleanup(func() { _ = u.Close() })
	return u, pipes
}

// All calls are answered although the connection to the provider died, and the one that waited on
// it has that on record.
func TestDeadConnectionIsReplaced(t *testing.T) {
	synctest.Test(t, testDeadConnection)
}

// testDeadConnection runs in a bubble.
func testDeadConnection(t *testing.T) {
	u, pipes := deadRig(t, true, time.Minute)
	if text, err := ask(t.Context(), u, request(t, true)); text != "ok" || err != nil {
		t.Fatal(text, err)
	}
	synctest.Wait()
	pipes.Stall()
	for i := range 20 {
		synctest.Wait() // the transport keeps a connection just after the call that made it
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
	if n := pipes.Dialed(); n != 2 {
		t.Errorf("%d connections", n)
	}
}

// Where nothing tells a dead connection from a silent provider, only one call times out.
func TestFirstByteTimeoutLeavesTheConnection(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) { testFirstByteTimeout(t, http2) })
	}
}

// testFirstByteTimeout runs in a bubble.
func testFirstByteTimeout(t *testing.T, http2 bool) {
	u, pipes := deadRig(t, http2, 2*time.Second) // HTTP/2 would know after six
	if text, err := ask(t.Context(), u, request(t, true)); text != "ok" || err != nil {
		t.Fatal(text, err)
	}
	synctest.Wait()
	pipes.Stall()
	failed := 0
	for i := range 20 {
		synctest.Wait() // the transport keeps a connection just after the call that made it
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

// A count that would be estimated ends after maxCountTime, or after first_byte if that is shorter.
func TestCountsAreNotWaitedForLong(t *testing.T) {
	const early, limited = "upstream s timed out: no count within 10s; try again", "upstream s timed out: no answer within limits.first_byte; try again, or allow more time"
	for _, c := range []struct {
		provider  *Provider
		client    perigee.Dialect
		firstByte time.Duration
		took      time.Duration
		want      string
	}{
		{Anthropic(config.Upstream{}), perigee.DialectAnthropic, 2 * time.Minute, maxCountTime, early},
		{Anthropic(config.Upstream{}), perigee.DialectOpenAIResponses, 0, maxCountTime, early},
		{Anthropic(config.Upstream{}), perigee.DialectAnthropic, 3 * time.Second, 3 * time.Second, limited},
		{newOpenAI(config.Upstream{API: "responses"}), perigee.DialectOpenAIResponses, 2 * time.Minute, maxCountTime, early},
		{Gemini, perigee.DialectAnthropic, 2 * time.Minute, maxCountTime, early},
		{Gemini, perigee.DialectGemini, 2 * time.Minute, 2 * time.Minute, limited},
	} {
		synctest.Test(t, func(t *testing.T) {
			silent := roundTripper(func(req *http.Request) (*http.Response, error) {
				_ = req.Body.Close()
				<-req.Context().Done()
				return nil, req.Context().Err()
			})
			u := New(c.provider, Options{Name: "s", URL: "https://provider.example", Transport: silent, FirstByte: c.firstByte})
			defer u.Close()
			began := time.Now()
			_, err := u.CountTokens(t.Context(), requestIn(t, c.client, "m", false, "hi", ""))
			e := perigee.AsError(err)
			if took := time.Since(began); took != c.took || e.Class != perigee.ClassUnavailable || e.Status != http.StatusGatewayTimeout || e.Error() != c.want {
				t.Errorf("%s: %v, %s %v", c.client, took, e.Class, err)
			}
		})
	}
}
