package accounttests

import (
	"net/http"
	"sync/atomic"
	"testing"

	"perigee/internal/account/roster"
	"perigee/internal/daemon"
	"perigee/internal/testing/perigeetest/await"
)

// A service that follows accounts is informed about new access tokens and about changes of the
// owner.
func TestAccountFeedReportsTokensAndChanges(t *testing.T) {
	t.Parallel()
	var feed roster.Feed
	var changes atomic.Int64
	cancel := feed.Subscribe(func(upstream string) {
		if upstream == "gravity" {
			changes.Add(1)
		}
	})
	defer cancel()
	w := newAccountRig(t, true, "", adaAndBob, func(o *daemon.Options) { o.AccountFeed = &feed })
	before := changes.Load()
	if status, body := w.call(); status != http.StatusOK {
		t.Fatalf("got %d: %s", status, body)
	}
	await.Until(t, "a change for the new token", func() bool { return changes.Load() > before })
	before = changes.Load()
	if _, err := w.control().EnableAccount(t.Context(), named("bob@example.com"), false); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "a change for the disabled account", func() bool { return changes.Load() > before })
}
