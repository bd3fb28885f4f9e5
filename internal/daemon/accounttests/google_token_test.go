package accounttests

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"perigee/internal/simulator"
	"perigee/internal/testing/daemontest"
	"perigee/internal/testing/perigeetest/await"
)

// manyCalls is the number of parallel calls.
const manyCalls = 50

// A cloudRig is a daemon with Vertex AI, and what stands in front of the simulator.
type cloudRig struct {
	*daemontest.Gateway
	t        *testing.T
	provider *simulator.Server
	tokens   atomic.Int32 // requests for tokens
	refused  atomic.Int32 // answers 401 of the API
	asked    atomic.Int32 // requests to the API since gather
	together chan struct{}
}

func (r *cloudRig) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	switch {
	case req.URL.Path == "/token":
		r.tokens.Add(1)
	case strings.HasSuffix(req.URL.Path, ":generateContent") && r.together != nil:
		if r.asked.Add(1) == manyCalls {
			close(r.together)
		}
		select {
		case <-r.together:
		case <-req.Context().Done():
			return
		}
	}
	answer := &statusWriter{ResponseWriter: w}
	r.provider.ServeHTTP(answer, req)
	if answer.status == http.StatusUnauthorized {
		r.refused.Add(1)
	}
}

// A statusWriter keeps the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func newCloudRig(t *testing.T) *cloudRig {
	r := &cloudRig{t: t, provider: daemontest.NewSimulator(t, simulator.Options{Admin: true})}
	url := daemontest.Serve(t, r)
	resp, err := daemontest.Client.Get(url + "/simulator/credentials?type=authorized_user")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "google.json")
	if err := os.WriteFile(file, []byte(daemontest.Rest(t, resp)), 0o600); err != nil {
		t.Fatal(err)
	}
	r.Gateway = daemontest.Start(t, fmt.Sprintf("upstreams:\n  - {name: cloud, kind: vertex, url: %q, credentials: %q}\n", url, "file:"+file), nil)
	return r
}

// ask makes a call, and returns why it was not answered.
func (r *cloudRig) ask() error {
	got, err := askIn(r.t.Context(), r.URL(), &dialectRigs[0], false, "gemini-2.5-flash", "[[text: here it is]]")
	if err == nil && (got.status != http.StatusOK || !strings.Contains(got.body, "here it is")) {
		err = fmt.Errorf("%d %s", got.status, got.body)
	}
	return err
}

// A token that the API does not take any more is refreshed once, however many calls have used it, and
// all of these calls are answered.
func TestParallelCallsRefreshAnExpiredGoogleTokenOnce(t *testing.T) {
	t.Parallel()
	for name, expire := range map[string]func(*cloudRig){
		"by the provider's clock": func(r *cloudRig) { r.provider.Advance(time.Hour) },
		"by the API": func(r *cloudRig) {
			if err := r.provider.AddFaults(simulator.Fault{Do: "unauthorized", When: simulator.When{Method: "generateContent"}, Times: manyCalls}); err != nil {
				r.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newCloudRig(t)
			if err := r.ask(); err != nil || r.tokens.Load() != 1 {
				t.Fatalf("%v after %d requests for tokens", err, r.tokens.Load())
			}
			expire(r)
			r.together = make(chan struct{}) // all calls have the old token before one is refused
			var all sync.WaitGroup
			errs := make([]error, manyCalls)
			for i := range errs {
				all.Go(func() { errs[i] = r.ask() })
			}
			await.Return(t, all.Wait, "the answers")
			if err := errors.Join(errs...); err != nil {
				t.Error(err)
			}
			if tokens, refused := r.tokens.Load()-1, r.refused.Load(); tokens != 1 || refused != manyCalls {
				t.Errorf("%d requests for tokens after %d refused calls", tokens, refused)
			}
		})
	}
}
