package accounttests

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perigee/internal/account/roster"
	"perigee/internal/simulator"
)

// states writes the accounts with their states.
func (w *accountRig) states() string {
	w.t.Helper()
	var words []string
	for _, row := range w.accounts() {
		name, _, _ := strings.Cut(row.Email, "@")
		words = append(words, strings.TrimSuffix(name+" "+row.State+": "+row.Reason, ": "))
	}
	return strings.Join(words, ", ")
}

func (w *accountRig) wantStates(want string) {
	w.t.Helper()
	if got := w.states(); got != want {
		w.t.Errorf("the accounts are %q, want %q", got, want)
	}
}

func TestImportedAccountsAreUntestedUntilTheyAreUsed(t *testing.T) {
	t.Parallel()
	w := newAccountRig(t, true, "", adaAndBob, nil)
	w.wantStates("ada untested, bob untested")
	if status, body := w.call(); status != http.StatusOK {
		t.Fatalf("%d: %s", status, body)
	}
	w.wantStates("ada ready, bob untested")
	w.imports(adaAndBob) // once more changes nothing
	w.wantStates("ada ready, bob untested")
	if _, err := w.control().EnableAccount(t.Context(), named("bob@example.com"), true); err != nil {
		t.Fatal(err)
	}
	w.wantStates("ada ready, bob untested")
	if list, err := w.control().Quota(t.Context(), true); err != nil || len(list.Problems) > 0 || len(list.Rows) == 0 {
		t.Errorf("got %+v, %v", list, err)
	}
	w.wantStates("ada ready, bob ready") // to be asked about its quota, it had to be refreshed
	w.imports(strings.ReplaceAll(adaAlone, "sim-refresh-ada", "sim-refresh-other"))
	w.wantStates("ada untested, bob ready")
}

// An account that was just identified, or has just signed in, is known to work. A file cannot claim
// that.
func TestWhoHasProvenItselfIsReady(t *testing.T) {
	everyWay(t, func(t *testing.T, running bool) {
		w := newAccountRig(t, running, "", `[{"refresh_token":"sim-refresh-bob"}]`, nil)
		w.wantStates("bob ready")
		w.imports(`{"accounts":[{"email":"ada@example.com","refresh_token":"sim-refresh-ada","tested":true}]}`) // as a login writes it
		w.wantStates("ada ready, bob ready")
		path := filepath.Join(t.TempDir(), "accounts.json")
		if err := os.WriteFile(path, []byte(`[{"email":"cyd@example.com","refresh_token":"sim-refresh-cyd","tested":true}]`), 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := roster.ReadFile(t.Context(), path, false)
		if err != nil {
			t.Fatal(err)
		}
		w.imports(string(file.Document))
		w.wantStates("ada ready, bob ready, cyd untested")
	})
}

// One Google account under two names would be used twice as hard.
func TestTokenUnderAnotherNameIsStopped(t *testing.T) {
	t.Parallel()
	w := newAccountRig(t, true, "", `[{"email":"bob@example.com","refresh_token":"sim-refresh-ada"}]`, nil)
	w.imports(adaAlone)
	for range 2 {
		if status, body := w.call(); status != http.StatusOK {
			t.Fatalf("%d: %s", status, body)
		}
	}
	w.wantStates("ada ready, bob misnamed: this refresh token belongs to ada@example.com, not to bob@example.com; remove it or import it under its own name")
	for _, call := range w.provider.Calls() {
		if strings.Contains(call.Path, "enerateContent") && call.Account != "ada@example.com" {
			t.Errorf("%s was asked", call.Account)
		}
	}
	if _, err := w.control().EnableAccount(t.Context(), named("bob@example.com"), true); err != nil {
		t.Fatal(err)
	}
	w.wantStates("ada ready, bob untested")
	if err := w.control().RemoveAccount(t.Context(), named("ada@example.com")); err != nil {
		t.Fatal(err)
	}
	status, body := w.call()
	if status == http.StatusOK || !strings.Contains(body, "1 with the token of another account") || strings.Contains(body, "@example.com") {
		t.Errorf("%d: %s", status, body)
	}
	w.imports(`[{"email":"bob@example.com","refresh_token":"sim-refresh-bob"}]`)
	if status, body := w.call(); status != http.StatusOK {
		t.Errorf("%d: %s", status, body)
	}
	w.wantStates("bob ready")
}

func TestUserinfoThatIsDownStopsNobody(t *testing.T) {
	t.Parallel()
	w := newAccountRig(t, true, "", adaAndBob, nil, simulator.Fault{When: simulator.When{Path: "/userinfo"}, Do: "unavailable_503"})
	if status, body := w.call(); status != http.StatusOK {
		t.Errorf("%d: %s", status, body)
	}
	w.wantStates("ada untested, bob untested")
}
