package daemon_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"perigee"
	"perigee/internal/daemon"
	"perigee/internal/testing/daemontest"
)

// Calls that are older than retention.calls are gone from the traces, and usage still has what they
// cost.
func TestOldCallsAreRemoved(t *testing.T) {
	t.Parallel()
	clock := &daemontest.Clock{At: time.Now()}
	dir, book := daemontest.DataDir(t), make(daemontest.Logbook, 1000)
	run := func(config string, during func(g *daemontest.Gateway)) {
		t.Helper()
		g := daemontest.StartIn(t, daemontest.Sources(config, dir), func(o *daemon.Options) { o.Now, o.Logger = clock.Now, slog.New(book) })
		if code := daemontest.Status(t, g, "generateContent", ""); code != http.StatusOK {
			t.Fatalf("the status is %d", code)
		}
		during(g)
		g.Daemon.Stop(t.Context())
	}
	left := func(want int) {
		t.Helper()
		if calls, err := daemontest.Recorded(t.Context(), dir); err != nil || len(calls) != want {
			t.Errorf("%d calls are left (%v), want %d", len(calls), err, want)
		}
	}
	run("", func(*daemontest.Gateway) {})
	clock.Advance(91 * 24 * time.Hour)
	run("retention: {calls: 0s}\n", func(*daemontest.Gateway) {})
	left(2)
	run("", func(g *daemontest.Gateway) {
		book.Line(t, "old calls removed", "calls=1")
		var rows []perigee.UsageRow
		resp, err := daemontest.Client.Get(g.URL() + "/v1/usage?by=upstream")
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(daemontest.Rest(t, resp)), &rows); err != nil || len(rows) != 1 || rows[0].Calls != 3 || rows[0].OutputTokens == 0 {
			t.Errorf("usage is %+v, %v", rows, err)
		}
	})
	left(2)
}
