package limittests

import (
	"bytes"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"perigee"
	"perigee/internal/daemon"
	"perigee/internal/testing/daemontest"
	"perigee/internal/testing/perigeetest"
	"perigee/internal/testing/perigeetest/await"
	"perigee/internal/testing/perigeetest/dbtest"
)

const limitedKeys = "keys:\n  - {name: one, secret: secret-one, rpm: 4}\n  - {name: two, secret: secret-two, rpm: 4}\n  - {name: free, secret: secret-free}\n"

func mustStatus(t *testing.T, g *daemontest.Gateway, key string, want int) {
	t.Helper()
	if got := daemontest.Status(t, g, daemontest.Streaming, key); got != want {
		t.Errorf("the key %s gets %d, want %d", key, got, want)
	}
}

// wantRetry checks that a call is refused until there is another request, which is a quarter of a
// minute at most.
func wantRetry(t *testing.T, g *daemontest.Gateway, key string) {
	t.Helper()
	after, err := strconv.Atoi(refused(t, g, key, perigee.ClassRateLimited))
	if err != nil || after < 1 || after > 15 {
		t.Errorf("Retry-After is %d, %v", after, err)
	}
}

func TestReplicasCountTheRequestsOfAKeyTogether(t *testing.T) {
	t.Parallel()
	stage := daemontest.NewStage(t)
	close(stage.GoOn)
	text := stage.Config(daemontest.StoreConfig(dbtest.Postgres(t), daemontest.NewSealKey()) + limitedKeys)
	a, b := daemontest.Start(t, text, nil), daemontest.Start(t, text, nil)
	for _, g := range []*daemontest.Gateway{a, b, b, b} {
		mustStatus(t, g, "secret-one", http.StatusOK)
	}
	wantRetry(t, a, "secret-one") // it has had one call only
	wantRetry(t, b, "secret-one")
	mustStatus(t, a, "secret-two", http.StatusOK)
	for range 5 {
		mustStatus(t, a, "secret-free", http.StatusOK)
	}
	// A third one that is started now begins with nothing left, either.
	wantRetry(t, daemontest.Start(t, text, nil), "secret-one")
}

// Four calls a minute for all, however many ask at once and wherever.
func TestReplicasLetRacingCallsOfAKeyThroughOnce(t *testing.T) {
	t.Parallel()
	stage := daemontest.NewStage(t)
	close(stage.GoOn)
	text := stage.Config(daemontest.StoreConfig(dbtest.Postgres(t), daemontest.NewSealKey()) + limitedKeys)
	var log daemontest.Log
	logged := func(o *daemon.Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) }
	gateways := []*daemontest.Gateway{daemontest.Start(t, text, logged), daemontest.Start(t, text, logged)}
	var racing sync.WaitGroup
	var mu sync.Mutex
	got := map[int]int{}
	for i := range 24 {
		racing.Go(func() {
			client := daemontest.Owner{Base: gateways[i%2].URL(), Token: "secret-one"}
			n, body, err := client.Do(t.Context(), http.MethodPost, "/v1beta/models/gemini-2.5-flash:"+daemontest.Streaming, daemontest.Question)
			if err != nil {
				t.Errorf("after %q: %v", body, err)
			}
			mu.Lock()
			defer mu.Unlock()
			got[n]++
		})
	}
	await.Return(t, racing.Wait, "the calls")
	most := 4
	if bytes.Contains(log.Bytes(), []byte("this one counts its own")) { // the database took too long to answer, here
		most = 8
	}
	if through := got[http.StatusOK]; through < 4 || through > most || got[http.StatusTooManyRequests] != 24-through {
		t.Errorf("got %v, want 4 to %d that are let through", got, most)
	}
}

// Without the database each replica counts what it knows of, and says so once.
func TestKeysAreLimitedWithoutTheDatabase(t *testing.T) {
	t.Parallel()
	w, through := daemontest.NewWire(t, dbtest.Postgres(t))
	stage := daemontest.NewStage(t)
	close(stage.GoOn)
	log, clock := &daemontest.Log{}, &perigeetest.Clock{}
	g := daemontest.Start(t, stage.Config(daemontest.StoreConfig(through, daemontest.NewSealKey())+limitedKeys), func(o *daemon.Options) {
		o.Now, o.Logger = clock.Now, slog.New(slog.NewTextHandler(log, nil))
	})
	mustStatus(t, g, "secret-one", http.StatusOK)
	w.Set(true)
	for range 3 {
		mustStatus(t, g, "secret-one", http.StatusOK)
	}
	wantRetry(t, g, "secret-one")
	mustStatus(t, g, "secret-two", http.StatusOK)
	w.Set(false)
	const again = "counted over all replicas again"
	await.Until(t, "requests are counted together again", func() bool {
		clock.Advance(10 * time.Second)
		mustStatus(t, g, "secret-free", http.StatusOK)
		daemontest.Status(t, g, daemontest.Streaming, "secret-two")
		return bytes.Contains(log.Bytes(), []byte(again))
	})
	if warned := bytes.Count(log.Bytes(), []byte("this one counts its own")); warned != 1 {
		t.Errorf("it warned %d times:\n%s", warned, log.Bytes())
	}
}
