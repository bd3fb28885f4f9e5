package limittests

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"perigee"
	"perigee/internal/daemon"
	"perigee/internal/testing/daemontest"
	"perigee/internal/testing/perigeetest"
	"perigee/internal/testing/perigeetest/await"
	"perigee/internal/testing/perigeetest/dbtest"
)

// A key that has spent its dollars of the day is refused until midnight UTC. What other keys, other
// days and models without a price have cost does not count.
func TestCostPerDay(t *testing.T) {
	t.Parallel()
	stage := daemontest.NewStage(t)
	close(stage.GoOn)
	dir, clock := daemontest.DataDir(t), &perigeetest.Clock{}
	call := func(id, key, model string, at time.Time, input int64) perigee.Call {
		return perigee.Call{ID: id, Time: at, Client: perigee.Client{Key: key}, Model: model, Upstream: "studio", Usage: perigee.Usage{Input: input}}
	}
	now := clock.Now()
	spend(t, dir,
		call("yesterday", "one", "gemini-2.5-flash", now.Add(-24*time.Hour), 1e8),
		call("unpriced", "one", "never-heard-of", now, 1e8),
		call("today", "one", "gemini-2.5-flash", now, 3_333_333), // at 0.30 a million: a little less than a dollar
		call("other", "two", "gemini-2.5-pro", now, 4e6),         // at the price of long prompts, 2.50 a million
		call("third", "three", "gemini-2.5-pro", now, 4e6),
	)
	g := daemontest.StartIn(t, daemontest.Sources(stage.Config(`keys:
  - {name: one, secret: secret-one, cost_per_day: 1}
  - {name: two, secret: secret-two, cost_per_day: 10}
  - {name: three, secret: secret-three, cost_per_day: 10.01}
`), dir), func(o *daemon.Options) { o.Now = clock.Now })
	for _, key := range []string{"secret-one", "secret-three"} {
		if got := daemontest.Status(t, g, daemontest.Streaming, key); got != http.StatusOK {
			t.Errorf("with something left for %s the status is %d", key, got)
		}
	}
	// Until midnight: 14 h 33 min 7 s.
	if after := refused(t, g, "secret-two", perigee.ClassExhausted); after != "52387" {
		t.Errorf("Retry-After is %s", after)
	}
	await.Until(t, "the call has been counted", func() bool {
		clock.Advance(3 * time.Second) // what was read before is not believed any more
		return daemontest.Status(t, g, daemontest.Streaming, "secret-one") == http.StatusTooManyRequests
	})
	clock.Advance(15 * time.Hour)
	if got := daemontest.Status(t, g, daemontest.Streaming, "secret-two"); got != http.StatusOK {
		t.Errorf("on the next day the status is %d", got)
	}
}

// Prices can be changed while the daemon runs. They hold for what was spent before.
func TestPricesAreReloaded(t *testing.T) {
	t.Parallel()
	stage := daemontest.NewStage(t)
	close(stage.GoOn)
	text := stage.Config("keys:\n  - {name: one, secret: secret-one, cost_per_day: 1}\n")
	g, log, write := daemontest.Follow(t, text)
	if got := daemontest.Status(t, g, daemontest.Streaming, "secret-one"); got != http.StatusOK {
		t.Fatalf("the first call: %d", got)
	}
	token, err := os.ReadFile(filepath.Join(g.Config.DataDir, "admin.token"))
	if err != nil {
		t.Fatal(err)
	}
	cost := func(want string) {
		t.Helper()
		await.Until(t, "the usage has "+want, func() bool {
			_, usage := g.Request(t, http.MethodGet, "/v1/usage?by=model", "secret-one", "")
			_, calls := g.Request(t, http.MethodGet, "/v1/traces", strings.TrimSpace(string(token)), "")
			return strings.Contains(usage, want) && strings.Contains(calls, want)
		})
	}
	cost(`"cost_usd":0.00`)
	write(text + "prices: [{model: gemini-*, input: 1000000, output: 0}]\n")
	log.Line(t, "configuration reloaded", "prices")
	cost(`"cost_usd":2,`) // a dollar for each token of input
	await.Until(t, "the new price counts", func() bool {
		return daemontest.Status(t, g, daemontest.Streaming, "secret-one") == http.StatusTooManyRequests
	})
	refused(t, g, "secret-one", perigee.ClassExhausted)
}

// What a key has spent at one replica counts at every replica.
func TestReplicasCountTheCostOfAKeyTogether(t *testing.T) {
	t.Parallel()
	stage := daemontest.NewStage(t)
	close(stage.GoOn)
	text := stage.Config(daemontest.StoreConfig(dbtest.Postgres(t), daemontest.NewSealKey()) +
		"keys:\n  - {name: one, secret: secret-one, cost_per_day: 5}\n  - {name: two, secret: secret-two, cost_per_day: 5}\n" +
		"prices: [{model: gemini-*, input: 1000000, output: 0}]\n") // a call costs two dollars
	a, b := daemontest.Start(t, text, nil), daemontest.Start(t, text, nil)
	for range 3 {
		mustStatus(t, a, "secret-one", http.StatusOK)
	}
	mustStatus(t, a, "secret-one", http.StatusTooManyRequests)
	if _, usage := a.Request(t, http.MethodGet, "/v1/usage?by=key", "secret-one", ""); !strings.Contains(usage, `"cost_usd":6,`) { // and it is stored
		t.Errorf("the usage is %s", usage)
	}
	refused(t, b, "secret-one", perigee.ClassExhausted) // which has had no call of the key
	mustStatus(t, b, "secret-two", http.StatusOK)
}
