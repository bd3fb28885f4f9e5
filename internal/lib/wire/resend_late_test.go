package wire

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"perigee"
	"perigee/internal/testing/perigeetest"
)

// A bodiesRig keeps what a tap is shown of the requests to a provider.
type bodiesRig struct {
	mu    sync.Mutex
	shown []string
}

func (r *bodiesRig) add(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shown = append(r.shown, text)
}

func (r *bodiesRig) Body(at perigee.TapPoint, pieces ...[]byte) {
	if at == perigee.TapProviderRequest {
		r.add(string(pieces[0]))
	}
}
func (r *bodiesRig) Done()                            {}
func (r *bodiesRig) ProviderEndpoint(endpoint string) { r.add(endpoint) }
func (r *bodiesRig) ProviderStatus(status int)        { r.add(fmt.Sprint(status)) }
func (r *bodiesRig) Attempted(*perigee.Attempt)       {}

// A connection that is lost long after the request has arrived is no connection that was closed
// while it was idle: the provider has worked on the request, and would do so twice. A request that
// is sent again is shown again.
func TestWorkIsNotAskedForTwice(t *testing.T) {
	for after, want := range map[time.Duration]string{
		900 * time.Millisecond:  "x http://provider.example x http://provider.example 200",
		1100 * time.Millisecond: "x http://provider.example",
		time.Minute:             "x http://provider.example",
	} {
		t.Run(after.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := 0 // the requests come one after the other
				pipes := perigeetest.NewPipes()
				server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
					if calls++; calls == 2 {
						time.Sleep(after)
						panic(http.ErrAbortHandler)
					}
				})}
				go func() { _ = server.Serve(pipes) }()
				defer server.Close()
				transport := NewTransport()
				transport.Configure(func(t *http.Transport) { t.DialContext = pipes.Dial })
				client := NewClient(transport)
				defer client.CloseIdleConnections()
				var tap bodiesRig
				for range 2 {
					synctest.Wait() // the transport keeps a connection just after the call that made it
					tap.shown = nil
					log := &perigee.CallLog{}
					log.SetTap(&tap)
					body := NewBody([]byte("x")).ShowTo(log)
					req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://provider.example/path", nil)
					if err != nil {
						t.Fatal(err)
					}
					if resp, err := body.Do(client, req); err == nil {
						_ = resp.Body.Close()
					}
					body.Wait()
				}
				if got := strings.Join(tap.shown, " "); got != want {
					t.Errorf("after %v: %s, want %s", after, got, want)
				}
			})
		})
	}
}
