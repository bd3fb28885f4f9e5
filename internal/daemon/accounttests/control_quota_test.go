package accounttests

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"perigee/internal/daemon"
	"perigee/internal/testing/daemontest"
	"perigee/internal/testing/perigeetest/await"
)

func TestQuotaOfThoseInUse(t *testing.T) {
	everyWay(t, func(t *testing.T, running bool) {
		w := newAccountRig(t, running, "", `[{"email":"ada@example.com","refresh_token":"sim-refresh-ada"},{"email":"bob@example.com","refresh_token":"sim-refresh-bob"},{"email":"old@example.com","refresh_token":"sim-refresh-revoked"}]`, nil)
		if _, err := w.control().EnableAccount(t.Context(), named("bob@example.com"), false); err != nil {
			t.Fatal(err)
		}
		list, err := w.control().Quota(t.Context(), true)
		if err != nil || len(list.Rows) == 0 || len(list.Problems) != 1 || list.Problems[0].Email != "old@example.com" || list.Problems[0].Upstream != "gravity" {
			t.Fatalf("got %d rows, %q, %v", len(list.Rows), list.Problems, err)
		}
		for _, row := range list.Rows {
			if row.Account != "ada@example.com" || row.Remaining != 1 || row.ResetsAt.IsZero() {
				t.Errorf("got %+v", row)
			}
		}
		if w.times(":fetchAvailableModels") != 1 {
			t.Errorf("the provider was asked %d times", w.times(":fetchAvailableModels"))
		}
		raw, err := json.Marshal(list.Rows[0])
		if err != nil || !strings.Contains(string(raw), `"account":"ada@example.com"`) || !strings.Contains(string(raw), `"remaining":1,"resets_at":"20`) {
			t.Errorf("a row is %s, %v", raw, err)
		}
	})
}

// The daemon looks at the quota of an account while it is used, every five minutes at most, and
// never on its own.
func TestQuotaIsLookedAtWhileCallsAreMade(t *testing.T) {
	t.Parallel()
	clock := &daemontest.Clock{At: time.Now()}
	w := newAccountRig(t, true, "", adaAndBob, func(o *daemon.Options) { o.Now = clock.Now })
	looks := func() int { return w.times(":fetchAvailableModels") }
	if looks() != 0 {
		t.Errorf("the provider was asked %d times before there was a call", looks())
	}
	for range 3 {
		if status, body := w.call(); status != http.StatusOK {
			t.Fatalf("got %d: %s", status, body)
		}
	}
	await.Until(t, "the quota was looked at", func() bool { return w.times(":retrieveUserQuota") == 1 })
	clock.Advance(4 * time.Minute)
	w.call()
	clock.Advance(2 * time.Minute)
	if looks() != 1 {
		t.Errorf("the provider was asked %d times within five minutes", looks())
	}
	w.call()
	await.Until(t, "the quota was looked at again", func() bool { return w.times(":retrieveUserQuota") == 2 })
	for _, call := range w.provider.Calls() {
		if call.Account == "bob@example.com" {
			t.Errorf("bob was asked about without being used: %s", call.Path)
		}
	}
	// Explaining knows what was seen.
	rows, err := w.control().ExplainAccounts(t.Context(), "gemini-2.5-flash")
	if err != nil || len(rows) == 0 || !strings.Contains(rows[0].Why, "of its quota left") {
		t.Errorf("got %+v, %v", rows, err)
	}
}
