package accounttests

import (
	"net/http"
	"sync"
	"testing"

	"perigee/internal/account/roster"
	"perigee/internal/daemon"
	"perigee/internal/testing/perigeetest/await"
)

// A service that follows accounts learns of new access tokens and of what the owner changes.
func TestAccountFeedReportsTokensAndChanges(t *testing.T) {
	t.Parallel()
	var feed roster.Feed
	var mu sync.Mutex
	seen := map[roster.Change]int{}
	cancel := feed.Subscribe(func(c roster.Change) {
		mu.Lock()
		defer mu.Unlock()
		seen[c]++
	})
	defer cancel()
	w := newAccountRig(t, true, "", adaAndBob, func(o *daemon.Options) { o.AccountFeed = &feed })
	if status, body := w.call(); status != http.StatusOK {
		t.Fatalf("got %d: %s", status, body)
	}
	if _, err := w.control().EnableAccount(t.Context(), named("bob@example.com"), false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []roster.Change{
		{Upstream: "gravity", Email: "ada@example.com", Kind: roster.Refreshed},
		{Upstream: "gravity", Email: "bob@example.com", Kind: roster.Updated},
	} {
		await.Until(t, string(want.Kind)+" "+want.Email, func() bool {
			mu.Lock()
			defer mu.Unlock()
			return seen[want] > 0
		})
	}
}
