package prooftests

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"perigee"
	upwire "perigee/internal/lib/wire"
	"perigee/internal/route"
	"perigee/internal/server"
	"perigee/internal/testing/perigeetest"
	"perigee/internal/testing/perigeetest/await"
	"perigee/internal/upstream/api"
)

// The memory of a body goes to the next call only when nothing reads it any more: not the provider
// that answered early, refused, or went away in the middle, and not for a client that left.
func TestBodiesOfTwoCallsNeverMix(t *testing.T) {
	perigeetest.Slow(t)
	for _, protocol := range []string{"HTTP/1.1", "HTTP/1.1 over TLS", "HTTP/2.0"} {
		t.Run(protocol, func(t *testing.T) {
			p := &mixer{t: t}
			provider := httptest.NewUnstartedServer(p)
			provider.Config.ErrorLog = log.New(io.Discard, "", 0) // net/http stumbles over requests that go on after their answer
			transport := upwire.NewTransport()
			if provider.EnableHTTP2 = protocol == "HTTP/2.0"; protocol == "HTTP/1.1" {
				provider.Start()
			} else {
				provider.StartTLS()
				roots := provider.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
				transport.Configure(func(t *http.Transport) { t.TLSClientConfig = &tls.Config{RootCAs: roots} })
			}
			defer provider.Close()
			upstream := api.New(api.Gemini, api.Options{Name: "g", URL: provider.URL, Keys: []perigee.Secret{perigee.NewSecret("k")}, Transport: transport})
			defer upstream.Close()
			router, err := route.New(route.Options{Targets: []route.Target{{Name: "g", Upstream: upstream}}}) // which releases requests
			if err != nil {
				t.Fatal(err)
			}
			api := server.New(server.Options{Upstream: router}, server.Settings{MaxBody: 16 << 20, Loopback: true})
			defer api.Close()
			gateway := httptest.NewServer(api)
			defer gateway.Close()
			var clients sync.WaitGroup
			for range 8 {
				clients.Go(func() {
					for n := p.calls.Add(1); n <= 48; n = p.calls.Add(1) {
						p.ask(gateway, int(n))
					}
				})
			}
			await.Return(t, clients.Wait, "the clients")
			if p.whole.Load() < 9 || p.answered.Load() < 9 { // every fifth of 48 is read to its end, and then answered
				t.Errorf("only %d bodies arrived whole and %d were answered", p.whole.Load(), p.answered.Load())
			}
		})
	}
}

// A mixer is a provider that does not always wait for the end of a request, and the clients that
// ask it. Each request is full of its own number, which also says what becomes of it.
type mixer struct {
	t                      *testing.T
	calls, whole, answered atomic.Int64
	leave                  sync.Map // by the number: the client's way to go
}

func mark(n int) string { return fmt.Sprintf("<%06d>", n) }

// ask sends the n-th request, of some hundred bytes to three megabytes.
func (p *mixer) ask(gateway *httptest.Server, n int) {
	ctx, leave := context.WithCancel(p.t.Context())
	defer leave()
	p.leave.Store(n, leave)
	size := []int{100, 250_000, 700_000, 1_900_000, 2_500_000, 50_000, 400_000}[n%7]
	text, stream := strings.Repeat(mark(n), size/8), n%4 == 0
	path, body := "/v1/chat/completions", fmt.Sprintf(`{"model":"m","stream":%v,"messages":[{"role":"user","content":"%s"}]}`, stream, text)
	if n%2 > 0 { // these go on as they came, in the memory that they came in
		path, body = "/v1beta/models/m:streamGenerateContent?alt=sse", fmt.Sprintf(`{"contents":[{"role":"user","parts":[{"text":"%s"}]}]}`, text)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, gateway.URL+path, strings.NewReader(body))
	if err != nil {
		p.t.Error(err)
		return
	}
	resp, err := gateway.Client().Do(req)
	if err != nil {
		if n%5 != 3 { // those leave
			p.t.Errorf("request %d: %v", n, err)
		}
		return
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode == http.StatusOK {
		p.answered.Add(1)
		if !bytes.Contains(answer, []byte(mark(n))) {
			p.t.Errorf("the answer to request %d is %s", n, answer)
		}
	}
}

func (p *mixer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	_ = control.EnableFullDuplex() // HTTP/2 is
	got := make([]byte, 200)
	read, _ := io.ReadFull(r.Body, got)
	got = got[:read]
	var n int
	if at := bytes.IndexByte(got, '<'); at < 0 {
		return // the client left before it sent its name
	} else if _, err := fmt.Sscanf(string(got[at:]), "<%06d>", &n); err != nil {
		return
	}
	says := func() {
		answer := fmt.Sprintf(`{"candidates":[{"content":{"parts":[{"text":%q}]},"finishReason":"STOP"}]}`, mark(n))
		if r.URL.RawQuery != "" {
			answer = "data: " + answer + "\r\n\r\n"
		}
		_, _ = io.WriteString(w, answer)
		_ = control.Flush()
	}
	switch n % 5 {
	case 0:
		says()
		p.rest(r, n, got)
	case 1:
		http.Error(w, `{"error":{"code":503,"message":"no","status":"UNAVAILABLE"}}`, http.StatusServiceUnavailable)
	case 2:
		panic(http.ErrAbortHandler)
	case 3:
		if leave, ok := p.leave.Load(n); ok {
			leave.(context.CancelFunc)()
		}
		p.rest(r, n, got)
	default:
		if p.rest(r, n, got) {
			says()
		}
	}
}

// rest reads what is left of a request, and finds nothing of any other in it.
func (p *mixer) rest(r *http.Request, n int, got []byte) (whole bool) {
	rest, err := io.ReadAll(r.Body)
	got = append(got, rest...)
	if all, own := bytes.Count(got, []byte("<")), bytes.Count(got, []byte(mark(n)[:7])); all > own+1 { // the last may be cut
		p.t.Errorf("request %d has %d pieces of others", n, all-own)
	}
	if err == nil {
		p.whole.Add(1)
	}
	return err == nil
}
