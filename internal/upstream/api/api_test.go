package api

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"perigee"
	dialect "perigee/internal/dialect/gemini"
	"perigee/internal/lib/wire"
	"perigee/internal/testing/perigeetest"
	"perigee/internal/testing/perigeetest/await"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const finished = `{"candidates":[{"content":{"parts":[{"text":"ok"}]},"finishReason":"STOP"}]}`

func request(t testing.TB, stream bool) *perigee.Request {
	t.Helper()
	req, err := dialect.DecodeRequest(perigee.Origin{Body: []byte(`{"contents":[]}`)}, "m", stream)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// ask returns the texts of an answer, joined, and its error.
func ask(ctx context.Context, u *Upstream, req *perigee.Request) (string, error) {
	var text strings.Builder
	for ev, err := range u.Stream(ctx, req) {
		if err != nil {
			return text.String(), err
		}
		if ev.Kind == perigee.EventFrame && strings.Contains(string(ev.Frame), `"ok"`) {
			text.WriteString("ok")
		}
	}
	return text.String(), nil
}

// Calls to a provider that speaks HTTP/2 share one connection, streams included.
func TestReusesOneHTTP2Connection(t *testing.T) {
	var connections atomic.Int32
	protocols := make(chan string, 100)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		protocols <- r.Proto
		_, _ = io.Copy(io.Discard, r.Body)
		if strings.Contains(r.URL.RawQuery, "sse") {
			fmt.Fprintf(w, "data: %s\r\n\r\n", finished)
			return
		}
		fmt.Fprint(w, finished)
	}))
	server.EnableHTTP2 = true
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.StartTLS()
	defer server.Close()
	transport := wire.NewTransport()
	roots := server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	transport.Configure(func(t *http.Transport) { t.TLSClientConfig = &tls.Config{RootCAs: roots} })
	u := New(Gemini, Options{Name: "s", URL: server.URL, Keys: []perigee.Secret{perigee.NewSecret("k")}, Transport: transport})
	defer u.Close()
	for i := range 20 {
		if text, err := ask(t.Context(), u, request(t, i%2 == 0)); text != "ok" || err != nil {
			t.Fatalf("call %d: %q, %v", i, text, err)
		}
		if p := await.Receive(t, protocols, "the request"); p != "HTTP/2.0" {
			t.Fatalf("call %d used %s", i, p)
		}
	}
	if n := connections.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// An untrusted certificate ends the call before the key is sent.
func TestRefusesAnUnknownCertificate(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("reached") }))
	server.Config.ErrorLog = nil
	defer server.Close()
	u := New(Gemini, Options{Name: "s", URL: server.URL, Keys: []perigee.Secret{perigee.NewSecret("k")}})
	defer u.Close()
	_, err := ask(t.Context(), u, request(t, true))
	if e := perigee.AsError(err); e == nil || e.Class != perigee.ClassUnavailable || !strings.Contains(e.Message, "certificate") {
		t.Errorf("%v", err)
	}
}

// Cancelling reaches the provider while it is still thinking, and while it streams.
func TestCancellationReachesTheProvider(t *testing.T) {
	for _, when := range []string{"before the head", "between events"} {
		arrived, gone := make(chan struct{}), make(chan struct{})
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			if when == "between events" {
				fmt.Fprint(w, "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"a\"}]}}]}\n\n")
				_ = http.NewResponseController(w).Flush()
			}
			close(arrived)
			<-r.Context().Done()
			close(gone)
		}))
		u := New(Gemini, Options{Name: "s", URL: server.URL})
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-arrived; cancel() }()
		_, err := ask(ctx, u, request(t, true))
		if e := perigee.AsError(err); e == nil || e.Class != perigee.ClassCanceled {
			t.Errorf("%s: %v", when, err)
		}
		await.Receive(t, gone, "the end at the provider")
		_ = u.Close()
		server.Close()
	}
}

func TestTimeOuts(t *testing.T) {
	for _, c := range []struct {
		name            string
		head            string
		firstByte, idle time.Duration
		want            string
	}{
		{"silent from the start", "", 10 * time.Millisecond, time.Hour, "limits.first_byte"},
		{"silent after the head", ": hello\n\n", 10 * time.Millisecond, time.Hour, "limits.first_byte"},
		{"silent after an event", "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"a\"}]}}]}\n\n", time.Hour, 10 * time.Millisecond, "limits.idle"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			if c.head != "" {
				fmt.Fprint(w, c.head)
				_ = http.NewResponseController(w).Flush()
			}
			<-r.Context().Done()
		}))
		u := New(Gemini, Options{Name: "s", URL: server.URL, FirstByte: c.firstByte, Idle: c.idle})
		_, err := ask(t.Context(), u, request(t, true))
		if e := perigee.AsError(err); e == nil || e.Class != perigee.ClassUnavailable || e.Status != http.StatusGatewayTimeout || !strings.Contains(e.Message, c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
		_ = u.Close()
		server.Close()
	}
}

func TestKeyring(t *testing.T) {
	now := time.Unix(1000, 0)
	ring := newKeyring([]perigee.Secret{perigee.NewSecret("a"), perigee.NewSecret("b"), perigee.NewSecret("c")})
	order := func() (s string) {
		for _, k := range ring.order(quota{model: "m"}, now) {
			s += k.secret.Reveal()
		}
		return s
	}
	if got := order(); got != "abc" {
		t.Errorf("at first: %s", got)
	}
	if !ring.coolDown(ring.keys[0], quota{model: "m"}, &perigee.Error{Class: perigee.ClassRateLimited, Retry: 10 * time.Second}, now) {
		t.Error("a rate limit is the key's own")
	}
	if ring.coolDown(ring.keys[1], quota{model: "m"}, &perigee.Error{Class: perigee.ClassInvalid}, now) {
		t.Error("an invalid request is not the key's fault")
	}
	if got := order(); got != "bca" {
		t.Errorf("a rests: %s", got)
	}
	ring.coolDown(ring.keys[1], quota{model: "m"}, &perigee.Error{Class: perigee.ClassExhausted}, now)
	ring.coolDown(ring.keys[2], quota{model: "m"}, &perigee.Error{Class: perigee.ClassUnauthenticated}, now)
	if got := order(); got != "abc" {
		t.Errorf("all rest, a the shortest: %s", got)
	}
	now = now.Add(10 * time.Second)
	if got := order(); got != "abc" {
		t.Errorf("a has rested: %s", got)
	}
	now = now.Add(time.Minute)
	if got := order(); got != "abc" {
		t.Errorf("all have rested: %s", got)
	}
}

// A caller that takes its time with an event is not the provider's silence.
func TestIdleDoesNotCountTheCallersTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pipes := perigeetest.NewPipes()
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			fmt.Fprint(w, `data: {"candidates":[{"content":{"parts":[{"text":"ok"}]}}]}`+"\n\ndata: "+finished+"\n\n")
		})}
		go func() { _ = server.Serve(pipes) }()
		defer server.Close()
		transport := wire.NewTransport()
		transport.Configure(func(t *http.Transport) { t.DialContext = pipes.Dial })
		u := New(Gemini, Options{Name: "s", URL: "http://provider.example", Idle: time.Minute, Transport: transport})
		defer u.Close()
		events := 0
		for _, err := range u.Stream(t.Context(), request(t, true)) {
			if err != nil {
				t.Fatal(err)
			}
			events++
			time.Sleep(time.Hour) // the caller is busy for longer than the limit, with each event
		}
		if events < 2 {
			t.Errorf("%d events", events)
		}
	})
}
