package accounttests

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"perigee/internal/daemon"
	"perigee/internal/simulator"
	"perigee/internal/testing/daemontest"
	"perigee/internal/testing/perigeetest/await"
)

// However often clients ask for the quota, and however asking fails, each account is asked about
// once, and again after a pause that grows.
func TestQuotaThatCannotBeReadIsNotAskedForAgain(t *testing.T) {
	t.Parallel()
	const accounts = 2 // of adaAndBob
	for name, test := range map[string]struct {
		fault simulator.Fault
		path  string // that is counted
	}{
		"sign-in server down":   {simulator.Fault{When: simulator.When{Path: "/token"}, Do: "unavailable_503"}, "/token"},
		"sign-in server resets": {simulator.Fault{When: simulator.When{Path: "/token"}, Do: "reset"}, "/token"},
		"gateway down":          {simulator.Fault{When: simulator.When{Method: "fetchAvailableModels"}, Do: "unavailable_503"}, ":fetchAvailableModels"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := &daemontest.Clock{At: time.Now()}
			w := newAccountRig(t, true, "keys: [{name: one, secret: secret-one, rpm: 1}]\n", adaAndBob, func(o *daemon.Options) { o.Now = clock.Now })
			if err := w.provider.AddFaults(test.fault); err != nil {
				t.Fatal(err)
			}
			before := w.times(test.path)
			asks := func() int { return w.times(test.path) - before }
			get := func() {
				if status, body := w.gateway.Request(t, http.MethodGet, "/v1/quota", "secret-one", ""); status == http.StatusOK && body == "[]" {
					t.Errorf("got %d %s", status, body)
				}
			}
			var all sync.WaitGroup
			for range 50 {
				all.Go(get)
			}
			await.Return(t, all.Wait, "the calls")
			first := asks()
			for range 50 {
				get()
			}
			if first == 0 || asks() != first {
				t.Errorf("%d questions, and %d more for others who ask", first, asks()-first)
			}
			if test.path == "/token" && first != accounts {
				t.Errorf("%d requests for %d accounts", first, accounts)
			}
			clock.Advance(20 * time.Second)
			if get(); asks() != first {
				t.Errorf("%d questions more after 20 seconds", asks()-first)
			}
			clock.Advance(20 * time.Second) // more than the first pause with all its jitter
			get()
			if asks() != 2*first {
				t.Errorf("%d questions after 40 seconds, want %d", asks(), 2*first)
			}
			clock.Advance(50 * time.Second) // less than the second pause
			if get(); asks() != 2*first {
				t.Errorf("%d questions more before the second pause is over", asks()-2*first)
			}
		})
	}
}

// A client that leaves does not have the next one ask again.
func TestQuotaIsAskedForOnceAlsoForClientsThatLeave(t *testing.T) {
	t.Parallel()
	provider := daemontest.NewSimulator(t, simulator.Options{}, simulator.Fault{When: simulator.When{Method: "fetchAvailableModels"}, Do: "hang"})
	var asked atomic.Int64
	url := daemontest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, ":fetchAvailableModels") {
			asked.Add(1)
		}
		provider.ServeHTTP(w, r)
	}))
	w := &accountRig{t: t, provider: provider, src: daemontest.Sources(daemontest.AntigravityConfig(url, ""), daemontest.DataDir(t))}
	w.gateway = daemontest.StartIn(t, w.src, nil)
	w.imports(adaAlone)
	for range 3 {
		conn := daemontest.Dial(t, w.gateway)
		if _, err := io.WriteString(conn, "GET /v1/quota HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		await.Until(t, "the request is there and the provider is asked", func() bool { return w.gateway.Active() == 1 && asked.Load() >= 1 })
		_ = conn.Close()
		await.Until(t, "the request is over", func() bool { return w.gateway.Active() == 0 })
	}
	if asked.Load() != 1 {
		t.Errorf("the provider was asked %d times", asked.Load())
	}
}
